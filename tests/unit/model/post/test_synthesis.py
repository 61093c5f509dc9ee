"""Self-made data: what each method chooses, what stays out, and the files of a tiny model and of a teacher's server."""

import json
import math
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from argosy.core.config.explain import validated
from argosy.core.errors import InputError, StepError
from argosy.corpus.data.schemas import parse_record, user
from argosy.model.infer.decode import TransformersDecoder
from argosy.model.post.rl.prompts import hold_out
from argosy.model.post.rl.rewards import Prompt, Sample
from argosy.model.post.sft import sample_parser
from argosy.model.post.synthesis import answers
from argosy.model.post.synthesis.methods import METHODS, Answer
from argosy.model.weights.chat import encode_answers, encode_prompt
from steps.synthesize import STEP, SynthesizeConfig
from tests.posttraining_fixtures import WORDS, make_checkpoint, make_tokenizer
from tests.servers import judge_server
from tests.step_fixtures import run_step, write_lines

GOOD, OTHER = "x", "y"  # tokens of the tiny tokenizer
FILES = ("instructions.jsonl", "preferences.jsonl", "unused.jsonl", "synthesis.json", "samples.json")


def speaking(checkpoint: Path, chances: dict[str, float]) -> Path:
    """Let a checkpoint's model say these words (tokens) with these chances, whatever it is asked."""
    final = checkpoint / "checkpoints/final"
    tokenizer, weights = AutoTokenizer.from_pretrained(final), load_file(final / "model.safetensors")
    weights = {name: tensor.clone() for name, tensor in weights.items() if name != "lm_head.weight"}
    embedded = weights["model.embed_tokens.weight"]
    embedded[:, 0] = 1000.0  # so that the first coordinate outweighs all others after the last norm
    weights["lm_head.weight"] = embedded.clone().zero_()
    weights["lm_head.weight"][:, 0] = -100.0 / math.sqrt(64)
    for word, chance in chances.items():
        [token] = tokenizer(word, add_special_tokens=False)["input_ids"]
        weights["lm_head.weight"][token, 0] = math.log(chance) / math.sqrt(64)
    save_file(weights, final / "model.safetensors", {"format": "pt"})
    config = json.loads((final / "config.json").read_text()) | {"tie_word_embeddings": False}
    (final / "config.json").write_text(json.dumps(config))
    return checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says x or y, once or more often."""
    made = make_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    return speaking(made, {GOOD: 0.3, OTHER: 0.3, "<|end|>": 0.4})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts whose right answer is x, of which one is a benchmark's and one is held out."""
    folder = tmp_path_factory.mktemp("data")
    asked = [f"say {word} please" for word in WORDS * 2] + ["what is the colour of the red house?", "held out"]
    prompts = [{"prompt": user(text), "accept": [GOOD], "channel": "colours"} for text in asked]
    write_lines(folder / "prompts.jsonl", prompts)
    own = [{"messages": [*user(text), {"role": "assistant", "content": "own"}], "channel": "own"} for text in asked[:3]]
    write_lines(folder / "instructions.jsonl", own)
    write_lines(folder / "instructions_heldout.jsonl", [{"messages": [*user("held out"), *own[0]["messages"][1:]]}])
    item = {"question": "What is the colour of the red house?", "choices": ["red", "blue", "green", "grey"]}
    write_lines(folder / "benchmark/en.jsonl", [item])
    return folder


def config(checkpoint: Path, data: Path, **more: Any) -> SynthesizeConfig:
    small = {"n": 4, "max_new_tokens": 6, "generation_batch_size": 8, "heldout": [{"seed": 4, "limit": 2}]}
    made: SynthesizeConfig = validated(SynthesizeConfig, {"checkpoint": str(checkpoint), "data": str(data), **small,
                                                          **more})  # fmt: skip
    return made


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def made_in(out: Path) -> list[dict[str, Any]]:
    """The records of a run, without those of the data step."""
    return [record for record in lines(out / "instructions.jsonl") if "model" in record]


@pytest.fixture(scope="module")
def whole(checkpoint: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """Outputs and folder of a run by the model itself."""
    out = tmp_path_factory.mktemp("whole")
    return run_step(STEP, config(checkpoint, data, data_share=0.25, seed=1), out), out


def answer(text: str, reward: float, *, ended: bool = True) -> Answer:
    return Answer(text, ended, reward=reward)


ANSWERS = [answer("a", 0.0), answer("b", 1.0), answer("b ", 1.0), answer("cut", 2.0, ended=False), answer("c", 1.5),
           answer("", 3.0), answer("d", -1.0)]  # fmt: skip


@pytest.mark.parametrize(("method", "fields", "expected"), [
    ("best_of_n", {}, [("c", None)]),
    ("best_of_n", {"output": "preferences"}, [("c", "d")]),
    ("best_of_n", {"output": "preferences", "margin": 9}, "differ by less than margin"),
    ("rejection_sampling", {"keep": 5}, [("c", None), ("b", None)]),
    ("rejection_sampling", {"threshold": 1.5}, [("c", None)]),
    ("rejection_sampling", {"threshold": 4}, "no answer reaches threshold"),
    ("on_policy_pairs", {"keep": 3}, [("c", "d"), ("b", "a")]),
    ("on_policy_pairs", {"keep": 3, "margin": 2}, [("c", "d")]),
    ("on_policy_pairs", {"threshold": -2}, "all answers reach threshold"),
    ("distillation", {"keep": 2}, [("a", None), ("b", None)]),
    ("distillation", {"rewards": {"accept": 1.0}}, [("c", None)])])
def test_what_a_method_chooses(method: str, fields: dict[str, Any], expected: object) -> None:
    settings = validated(SynthesizeConfig, {"method": method, "n": 7, **fields})
    found = METHODS[method].choose(settings, ANSWERS)
    if isinstance(found, str):
        assert str(expected) in found
    else:
        assert [(each.answer.text, each.rejected and each.rejected.text) for each in found] == expected
    assert "cut at max_new_tokens" in METHODS[method].choose(settings, [ANSWERS[3]])
    assert METHODS[method].choose(settings, [answer("\ufffd", 9.0)]) == "broken characters"


def test_a_model_s_right_answers_become_records_that_sft_reads(data: Path, whole: tuple[dict[str, Any], Path]) -> None:
    out, folder = whole
    records, made = lines(folder / "instructions.jsonl"), made_in(folder)
    assert out["records"] == len(made) > 3
    assert out["own"] == len(records) - len(made) == round(len(made) / 3)
    for record in made:
        assert parse_record("instructions", record)["messages"][-1]["content"] == GOOD
        about = {"model": "anneal/final", "method": "rejection_sampling", "n": 4, "reward": 1.0}
        assert about.items() <= record.items()
        assert record["channel"] == "synthesize/colours"
        assert isinstance(record["seed"], int)
    parse = sample_parser(make_tokenizer(), 96)
    assert len([parse(record) for record in records]) == out["records"] + out["own"]
    assert (folder / "instructions_heldout.jsonl").read_bytes() == (data / "instructions_heldout.jsonl").read_bytes()
    assert out["metrics"]["synthesize/reward/chosen"] == 1.0
    rows = json.loads((folder / "samples.json").read_text())
    assert {"best", "worst"} == {row[rows["columns"].index("end")] for row in rows["data"]}


def test_prompts_of_evaluations_are_not_answered_and_each_left_out_is_named(data: Path,
                                                                            whole: tuple[dict[str, Any], Path]) -> None:
    out, folder = whole
    unused = {row["prompt"][0]["content"]: row for row in lines(folder / "unused.jsonl")}
    every = [Prompt(record["prompt"], []) for record in lines(data / "prompts.jsonl")]
    held = {prompt.messages[0]["content"] for prompt in hold_out(every, 2, 4)[1]} | {"held out"}
    reasons: dict[str, set[str]] = {}
    for text, row in unused.items():
        reasons.setdefault(row["reason"], set()).add(text)
    assert reasons["held out for evaluation"] == held
    assert reasons["benchmark item"] == {"what is the colour of the red house?"}
    assert reasons["no answer reaches threshold"]
    assert out["left_out"] == {reason: len(texts) for reason, texts in sorted(reasons.items())}
    used = {record["messages"][0]["content"] for record in made_in(folder)}
    assert not used & {*unused}
    assert len(used) + len(unused) == len({prompt.messages[0]["content"] for prompt in every})


def test_a_kill_loses_a_batch_and_the_bytes_are_the_same(checkpoint: Path, data: Path, tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = config(checkpoint, data, seed=1, method="on_policy_pairs")
    run_step(STEP, chosen, tmp_path / "whole")
    calls, decode = 0, TransformersDecoder.__call__

    def killed(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return decode(*given)

    monkeypatch.setattr(TransformersDecoder, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        run_step(STEP, chosen, tmp_path / "again")
    assert not (tmp_path / "again/preferences.jsonl").exists()
    run_step(STEP, chosen, tmp_path / "again")
    assert calls - 1 == -(-len(prompts_answered(tmp_path / "whole")) // 2)  # two prompts a batch; none twice
    for name in FILES:
        whole, again = tmp_path / "whole" / name, tmp_path / "again" / name
        assert whole.exists() == again.exists()
        assert not whole.exists() or whole.read_bytes() == again.read_bytes()
    for pair in lines(tmp_path / "whole/preferences.jsonl"):
        assert parse_record("preferences", pair)["chosen"][0]["content"] == GOOD
        assert (pair["reward"], pair["rejected_reward"], pair["margin"]) == (1.0, 0.0, 1.0)


def prompts_answered(out: Path) -> range:
    return range(json.loads((out / "synthesis.json").read_text())["prompts"])


def test_a_teacher_may_be_a_directory_that_transformers_loads(checkpoint: Path, data: Path, tmp_path: Path,
                                                              whole: tuple[dict[str, Any], Path]) -> None:
    model = tmp_path / "large"
    shutil.copytree(checkpoint / "checkpoints/final", model, ignore=shutil.ignore_patterns("argosy.json"))
    given = {"method": "distillation", "teacher": str(model), "data": str(data), "max_new_tokens": 6, "rewards":
             {"accept": 1.0}, "n": 4, "seed": 1, "heldout": [{"seed": 4, "limit": 2}]}  # fmt: skip
    out = run_step(STEP, validated(SynthesizeConfig, given), tmp_path / "taught")
    made = made_in(tmp_path / "taught")
    assert {record["model"] for record in made} == {"large"}
    assert [each["messages"] for each in made] == [each["messages"] for each in made_in(whole[1])]  # the same model
    assert out["metrics"]["synthesize/reward/chosen"] == 1.0


def test_a_reward_model_reads_a_teacher_s_words_in_its_own_tokens() -> None:
    tokenizer = make_tokenizer()
    asked, said = user("say cat twice"), {"role": "assistant", "content": "cat cat"}
    found = answers.reencoded(Sample(Prompt(asked, [9]), [8], "cat cat", ended=True), tokenizer)
    assert found.prompt.ids == encode_prompt(tokenizer, asked)
    assert [*found.prompt.ids, *found.answer_ids] == encode_answers(tokenizer, [*asked, said])[0]
    cut = answers.reencoded(Sample(Prompt(asked, [9]), [8], "cat cat", ended=False), tokenizer)
    assert cut.answer_ids == found.answer_ids[:-1]


Reply = Callable[[str, int], "tuple[int, Any]"]


def taught(reply: Reply, data: Path, out: Path, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with judge_server(reply) as asked:
        given = {"method": "distillation", "teacher": asked.url, "teacher_model": "m", "n": 2, "heldout":
                 [{"seed": 4, "limit": 2}], "data": str(data), **more}  # fmt: skip
        return run_step(STEP, validated(SynthesizeConfig, given), out), asked.bodies


def test_a_step_without_enough_replies_fails_and_then_sends_the_missing_requests_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ChatApi", partial(answers.ChatApi, sleep=lambda _: None))
    down, bodies = True, []

    def reply(text: str, number: int) -> tuple[int, Any]:
        bodies.append(text)
        return (503, {}) if "cat" in text and down else (400, {}) if "dog" in text else (200, GOOD)

    with judge_server(reply) as asked:
        fields = {"method": "distillation", "teacher": asked.url, "teacher_model": "m", "n": 1, "data": str(data),
                  "heldout": [{"seed": 4, "limit": 2}]}  # fmt: skip
        given = validated(SynthesizeConfig, fields)
        with pytest.raises(StepError, match=r"1 of 10 requests .*after 5 attempts \(HTTP 503\).*teacher_missing=0.01"):
            run_step(STEP, given, tmp_path)
        some = run_step(STEP, validated(SynthesizeConfig, {**fields, "teacher_missing": 0.5}), tmp_path / "some")
        assert some["left_out"].items() >= {"no reply": 1, "refused by the teacher": 1}.items()
        down = False
        bodies.clear()
        out = run_step(STEP, given, tmp_path)
    assert sorted(bodies) == ["say cat please", "say dog please"]
    assert out["records"] == some["records"] + 1 == 9


def test_a_budget_ends_the_requests_and_a_server_without_replies_is_an_error(data: Path, tmp_path: Path) -> None:
    words = {"choices": [{"message": {"content": GOOD}}], "usage": {"total_tokens": 10}}
    out, bodies = taught(lambda *_: (200, words), data, tmp_path / "a", teacher_budget=30, teacher_parallel=1, n=1)
    assert len(bodies) == 3  # each is sent when the reply before it is counted
    assert out["left_out"]["beyond teacher_budget"] == out["prompts"] - out["answers"] > 0
    with pytest.raises(InputError, match=r"teacher m at http.*the key is refused \(401: no\)"):
        taught(lambda *_: (401, {"error": {"message": "no"}}), data, tmp_path / "b")
    with pytest.raises(StepError, match=r"none of .* prompts has a record.*no words"):
        taught(lambda *_: (200, ""), data, tmp_path / "c")
    with pytest.raises(StepError, match=r"gave none of 20 replies \(20 x the server refuses the request \(400: long\)"):
        taught(lambda *_: (400, {"error": {"message": "long"}}), data, tmp_path / "d")


@pytest.mark.parametrize(("fields", "says"), [
    ({"prompts": "x.jsonl"}, "prompts is 'x.jsonl', allowed: 'prompts.jsonl'"),
    ({"method": "best_of"}, "method='best_of' is not there; nearest: best_of_n"),
    ({"method": "best_of_n", "threshold": 2}, "threshold=2.0 is not of method=best_of_n"),
    ({"method": "best_of_n", "margin": 1}, "margin=1.0 is of pairs: set output=preferences"),
    ({"method": "best_of_n", "n": 1}, "n=1 leaves method=best_of_n nothing to choose from"),
    ({"teacher": "http://x/v1"}, "teacher_url=http://x/v1 is not of method=rejection_sampling"),
    ({"method": "distillation", "teacher": "http://x/v1"}, "teacher_model is missing"),
    ({"method": "distillation", "teacher": "org/name"}, "teacher is 'org/name': there is no such directory"),
    ({"method": "distillation", "teacher": "https://x/v1", "teacher_model": "m", "processes": 2}, "asked by one"),
    ({"temperature": 0}, "temperature=0 makes the n=8 answers to a prompt equal"),
    ({"keep": 9}, "keep=9 is more than the n=8 answers"),
    ({"rewards": {}}, "rewards is empty"),
    ({"rewards": {"acept": 1}}, "did you mean 'accept'")])
def test_what_does_not_fit_together_is_refused_in_words(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        validated(SynthesizeConfig, fields)
    assert says in str(error.value)
