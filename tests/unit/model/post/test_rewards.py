"""Rewards of answers, and the config that weighs them."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForSequenceClassification

from argosy.core.config.load import load
from argosy.core.errors import InputError, StepError
from argosy.corpus.data.counts import Rejects, read_records
from argosy.corpus.data.schemas import assistant, user
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.prompts import prompt_parser
from argosy.model.post.rl.rewards import Prompt, Sample, Surroundings, WeightedRewards
from tests.posttraining_fixtures import make_tokenizer
from tests.shared_data import shared
from tests.step_fixtures import write_lines

ROOT = Path(__file__).resolve().parents[4]


def sample(text: str, form: str = "text", ended: bool = True) -> Sample:
    accept = ("乙", "乙。") if form == "letter" else ("Paris", "Paris.")
    return Sample(Prompt([], [1], {"accept": accept, "format": form}), [1, 2], text, ended)


@pytest.mark.parametrize(("text", "form", "right", "in_format"), [
    ("Paris.", "text", 1, 1), ("It is Paris", "text", 0, 1), ("Paris\nParis", "text", 0, 0), ("", "text", 0, 0),
    ('{"answer": "Paris"}', "json", 1, 1), ('{"answer": "Rome"}', "json", 0, 1), ("Paris", "json", 0, 0),
    ('{"answer": ["Paris"]}', "json", 0, 0), ('{"reply": "Paris"}', "json", 0, 0), ("[1]", "json", 0, 0),
    # whatever the alphabet
    ("乙", "letter", 1, 1), ("甲", "letter", 0, 1), ("乙是对的", "letter", 0, 0)])  # fmt: skip
def test_checkable_rewards(text: str, form: str, right: float, in_format: float) -> None:
    rewards = WeightedRewards({"accept": 1.0, "format": 0.5}, Surroundings())
    totals, parts, _ = rewards([sample(text, form)])
    assert parts == {"accept": [right], "format": [in_format]}
    assert totals == [right + 0.5 * in_format]


def test_an_answer_that_was_cut_is_out_of_format_and_has_not_ended() -> None:
    found = WeightedRewards({"ended": 1.0, "format": 1.0}, Surroundings())([sample("Paris", ended=False)])
    assert found.parts == {"ended": [0], "format": [0]}
    assert found.reasons == {"ended": ["cut at the limit"], "format": ["cut at the limit"]}


@pytest.mark.parametrize(("override", "message"), [
    ("rewards.classifier=1", "rewards has 'classifier', and classifier is empty"),
    ("rewards.acept=1", r"rewards has 'acept': unknown reward 'acept'; did you mean 'accept'\? \(there are: accept, "),
    ("rewards.maths.tolerance=-1", "rewards.maths.tolerance is -1, allowed: a number from 0 on"),
    ("rewards.maths.toleranse=1", "rewards.maths.toleranse is not a field; nearest: rewards.maths.tolerance"),
    ("rewards.maths=x", "rewards.maths.weight is 'x', allowed: a number"),
    ("rewards.accept=true", "rewards.accept.weight is true, allowed: a number"),
    ("rewards.regex.pattern='('", r"rewards.regex.pattern is wrong: '\(' is no regular expression: missing \)"),
    ("rewards.json_schema.schema={type: obj}", "rewards.json_schema.schema is wrong: no JSON Schema"),
    ("rewards.length={least: 9, most: 5}", "rewards.length is wrong: least=9 is more than most=5"),
    ("guards.true_reward.length=1", "guards.true_reward.length.most is missing")])  # fmt: skip
def test_a_wrong_setting_is_named_with_what_is_allowed(override: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(override)}: {message}"):
        load(RLHFConfig, [], [override])


def test_prompts_without_what_a_reward_checks_are_set_aside_with_line_and_reason(tmp_path: Path) -> None:
    asked = {"prompt": user("say")}
    write_lines(tmp_path / "prompts.jsonl", [
        {**asked, "answer": "B", "pattern": "x"}, {**asked, "pattern": "x"}, {**asked, "answer": "F", "pattern": "x"},
        {**asked, "answer": "A"}, {**asked, "answer": "A", "pattern": "("}])

    def read(**settings: object) -> tuple[int, list[tuple[int, str]]]:
        weighed = WeightedRewards({"multiple_choice": 1, **settings}, Surroundings())  # type: ignore[dict-item]
        rejects = Rejects()
        parse = prompt_parser(make_tokenizer(), 96, weighed.problem)
        found = read_records(tmp_path / "prompts.jsonl", parse, rejects)
        return len(found), [(each.line, each.reason) for each in rejects.rejects]

    lacks = (2, "answer is missing, which the reward multiple_choice checks")
    wrong = (3, "answer, which the reward multiple_choice checks: allowed: one of the letters ABCDE")
    broken = (5, "pattern: no regular expression")
    assert read(regex=1) == (1, [lacks, wrong, (4, "pattern is missing, which the reward regex checks"), broken])
    assert read(regex={"pattern": "y"}) == read(regex={"absent": "zero"}) == (2, [lacks, wrong, broken])
    assert read(multiple_choice={"absent": "zero"}) == (
        2, [(2, "has nothing that its rewards check: answer"), wrong, broken])


def test_the_reward_of_the_docs_is_a_whole_file() -> None:
    page = (ROOT / "docs/posttraining.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "argosy.model.post.rl.rewards.starts"}
    exec(source, module)
    reward = module["Starts"](module["StartsConfig"](case=False), Surroundings())
    samples = [Sample(Prompt([], [1], {"opening": "DEAR"}), [1], text, True) for text in ("Dear you", "You")]
    assert (reward.name, reward(samples)) == ("starts", [(1, ""), (0, "another opening")])
    assert reward.problem({}) == "opening is missing, which the reward starts checks"


@pytest.mark.parametrize(("values", "message"), [
    ({"batch_size": 24, "micro_batch_size": 16}, "micro_batch_size=16 does not divide batch_size=24"),
    ({"method": "grpo", "batch_size": 12, "micro_batch_size": 12}, "not a multiple of group.size=8"),
    ({"processes": 3}, "processes=3 does not divide batch_size=64"),
    ({"method": "grpo", "processes": 16, "group": {"size": 8}}, "processes=16 is not a multiple of group.size=8"),
    ({"processes": 64, "minibatches": 2}, "minibatches=2 does not divide batch_size=64 / processes=64"),
    ({"minibatches": 7}, "minibatches=7 does not divide"),
    ({"method": "gpro"}, "method='gpro' is not there; nearest: grpo"),
    ({"dynamic_sampling": 2}, "method=ppo has one answer to each"),
    ({"loss": {"clip_high": 0.1}}, "loss.clip_high=0.1 is below loss.clip=0.2"),
    ({"loss": {"scale": "group"}}, "method=ppo has none: choose batch or none"),
    ({"length": {"soft_tokens": 33}}, "length.soft_tokens=33 is more than max_new_tokens=32"),
    ({"tensor_parallel": 2, "processes": 2}, "tensor_parallel=2 is not for this step")])
def test_sizes_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RLHFConfig.model_validate(values)


def judge(name: str, text: str, settings: dict[str, Any] | None = None, tokens: int = 1,
          **fields: Any) -> tuple[float, str]:
    """Value and reason of an answer to a prompt with these fields."""
    rewards = WeightedRewards({name: settings or {}}, Surroundings())
    assert not rewards.problem(fields)
    found = rewards([Sample(Prompt([], [1], fields), [1] * tokens, text, True)])
    return found.totals[0], found.reasons[name][0]


@pytest.mark.parametrize(("text", "answer", "value"), [
    ("  PARIS.", "Paris", 1), ("the Eiffel  tower", "Eiffel Tower", 1), ("１,０００", "1000.0", 1),
    ("Rome", "Paris", 0), ("", "Paris", 0), ("巴黎。", "巴黎", 1)])  # fmt: skip
def test_exact(text: str, answer: str, value: float) -> None:
    assert judge("exact", text, answer=answer)[0] == value


@pytest.mark.parametrize(("text", "answer", "value", "reason"), [
    ("She has 16 - 3 = 13, so 13 * 2 = 26 dollars.", "26", 1, "26"),
    ("#### 1,234", "3 * 4 = <<3*4=12>>12\n#### 1234", 1, "1,234"),
    ("It is 20. #### 18\nNext question: 7", "18", 1, "18"),
    (r"so $\boxed{\frac{3}{4}}$ of 100", "0.75", 1, r"\frac{3}{4}"),
    (r"\boxed{2\sqrt{3}}", r"$\sqrt{12}$", 1, r"2\sqrt{3}"),
    ("The answer is 3/4.", r"\frac34", 1, "3/4"),
    ("50%", "0.5", 1, "50%"), ("50", "50%", 1, "50"), ("5", "50%", 0, "5, not 50%"),
    ("答案是１２．５万元。", "125000", 1, "１２．５万元"),
    ("The answer is 18 eggs, since 2 * 9 is.", "18", 1, "18"),
    ("-5", "5", 0, "-5, not 5"), ("0.333333333", "1/3", 1, "0.333333333"), ("0.3333", "1/3", 0, "0.3333, not 1/3"),
    ("1000001", "1000000", 0, "1000001, not 1000000"), ("x", "3", 0, "no number in the answer"),
    ("", "3", 0, "no number in the answer"), ("10^{10^{10}}", "3", 0, "10^{10^{10}}, not 3"),
    (r"\boxed{(1, \frac12)}", "(1.0, 0.5)", 1, r"(1, \frac12)"), (r"\boxed{x + 1}", "x+1", 1, "x + 1"),
    (r"\boxed{1{,}000\text{ eggs}}", "1000", 1, r"1{,}000\text{ eggs}"), ("it is 1,5", "1.5", 0, "1,5, not 1.5"),
    (r"The answer is 1.5 \times 10^{3}.", "1500", 1, r"1.5 \times 10^{3}"),
    (r"\boxed{[1, 2)}", "(1, 2)", 0, "[1, 2), not (1, 2)"), (r"\boxed{2x}", "2", 0, "2x, not 2")])  # fmt: skip
def test_maths(text: str, answer: str, value: float, reason: str) -> None:
    assert judge("maths", text, answer=answer) == (value, reason)


@pytest.mark.parametrize(("value", "texts"), [(0, [
    r"\boxed{5 or 6}", r"\boxed{5 and 7}", r"\boxed{5\text{ or }6}", "The answer is 5 or 6.",
    "The answer is $5$ or $6$.", "#### 5 or 6 or 7", "答案是5或6", "The answer is 5 red apples or 6.",
    r"\boxed{x=6 or x=5}", "So it is 6 or 5.", r"\boxed{5 km per 4 hours}", "The answer is not 5.",
    r"\boxed{5 dollars 50 cents}"]), (1, [
    "The answer is 5, not 6.", "The answer is 5 because 2 and 3 make it.", "2 and 3 make 5.", r"\boxed{5 km/h}",
    "It is 4 or 5? The answer is 5.", r"\boxed{5 cm2}", "The answer is not 6 but 5.", "5 for 6: so 5"])])  # fmt: skip
def test_maths_takes_the_one_number_that_is_stated_and_none_of_several(value: float, texts: list[str]) -> None:
    assert [text for text in texts if judge("maths", text, answer="5")[0] != value] == []


@pytest.mark.parametrize(("text", "value", "reason"), [
    ("The answer is (B)", 1, "B"), ("答案是B", 1, "B"), ("(B) A dog", 1, "B"), ("the answer is b.", 1, "B"),
    ("The answer is B, A and C are wrong.", 1, "B"), ("The answer is A", 0, "A, not B"), ("Paris", 0, "no letter"),
    ("A, B", 0, "several letters: A, B"), ("The answer is A and B", 0, "several letters: A, B"),
    ("B or C", 0, "no letter"), ("", 0, "no letter"), ("(A)(B)", 0, "several letters: A, B")])  # fmt: skip
def test_multiple_choice(text: str, value: float, reason: str) -> None:
    assert judge("multiple_choice", text, answer="B") == (value, reason)


@pytest.mark.parametrize(("name", "settings", "text", "fields", "expected"), [
    ("exact", {"numbers": False}, "1,000", {"answer": "1000"}, (0, "'1,000' is not '1000'")),
    ("maths", {"tolerance": 1e-2}, "3.14", {"answer": r"\pi"}, (1, "3.14")),
    ("maths", {}, "3.14", {"answer": r"\pi"}, (0, r"3.14, not \pi")),
    ("regex", {}, "so 42 it is", {"pattern": r"\d+"}, (1, "42")),
    ("regex", {"whole": True}, "so 42 it is", {"pattern": r"\d+"}, (0, "no match")),
    ("regex", {"pattern": "^(yes|no)$"}, "yes", {}, (1, "yes")),
    ("regex", {"seconds": 0.05}, "a" * 40 + "!", {"pattern": "^(a|a)*$"}, (0, "no match within 0.05 s")),
    ("json_schema", {"schema": {"$ref": "http://127.0.0.1:9/schema.json"}}, "1", {},
     (0, "its schema refers to http://127.0.0.1:9/schema.json, which is not in it"))])  # fmt: skip
def test_settings_of_a_reward(name: str, settings: Any, text: str, fields: Any, expected: tuple[float, str]) -> None:
    assert judge(name, text, settings, **fields) == expected


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"pattern": "^a+$"}}, "required": ["n"],
          "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), [
    ('{"n": 1, "s": "aa", "xy": "z"}', ""), ('```json\n{"n": 1}\n```', ""),
    ('{"n": "1"}', "$.n: '1' is not of type 'integer'"),
    ("{}", "$: 'n' is a required property"), ('{"n": 1, "m": 2}', "$: 'm' may not be there"), ("n: 1", "no JSON"),
    ('{"n": 1, "s": "b"}', "$.s: 'b' does not match '^a+$'"), ('{"n": 1, "xy": 2}', "$.xy: 2 is not of type 'string'"),
    ('{"n": NaN}', "no JSON"), ("[" * 100_000, "no JSON"), ("9" * 5000, "no JSON")])  # fmt: skip
def test_json_schema(text: str, reason: str) -> None:
    assert judge("json_schema", text, schema=SCHEMA) == (float(not reason), reason)


@pytest.mark.parametrize(("text", "language", "value"), [
    ("It is the capital of France.", "en", 1), ("它是法国的首都。", "zh", 1), ("It is the capital.", "zh", 0),
    ("首都是 Paris", "zh", 0.75), ("C'est la capitale de la France et des Français.", "en", 0), ("42", "en", 0),
    ("`import os` 是模块", "zh", 1)])  # fmt: skip
def test_language_is_the_share_of_its_words(text: str, language: str, value: float) -> None:
    assert judge("language", text, language=language)[0] == value


@pytest.mark.parametrize(("settings", "values"), [
    ({"least": 2, "most": 4}, [0, 1, 1, 1, 0, 0, 0, 0]),
    ({"most": 4, "soft": 2}, [1, 1, 1, 1, 0.5, 0, 0, 0]),
    ({"kind": "dapo", "most": 6, "soft": 4}, [0, 0, -0.25, -0.5, -0.75, -1, -1, -1])])  # fmt: skip
def test_length(settings: dict[str, Any], values: list[float]) -> None:
    assert [judge("length", "", settings, tokens)[0] for tokens in range(1, 9)] == values


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox is of Linux")
def test_code_is_run_with_its_tests() -> None:
    prompt = Prompt([], [1], {"tests": ["assert double(2) == 4", "assert double(-1) == -2"]})
    texts = ["def double(x): return 2 * x", "So:\n```python\ndef double(x):\n    return x + 2\n```\nIt adds.", "Two.",
             "```\nx = 1\n```\nor\n```py\ndef double(x): return x + x"]  # fmt: skip
    rewards = WeightedRewards({"code": {"score": "share", "seconds": 2, "memory_mb": 128}}, Surroundings())
    found = rewards([Sample(prompt, [1], text, True) for text in texts])
    assert found.totals == [1, 0.5, 0, 1]
    assert found.reasons["code"] == ["all 2 tests passed", "test 2: AssertionError",
                                     "SyntaxError: invalid syntax (answer, line 1)", "all 2 tests passed"]


def test_gold_answers_of_gsm8k_are_right_and_changed_ones_wrong() -> None:
    lines = shared("gsm8k/grade_school_math__data__test.jsonl").read_text(encoding="utf-8").splitlines()
    rewards = WeightedRewards({"maths": 1}, Surroundings())
    prompts = [Prompt([], [1], json.loads(line)) for line in lines]
    gold = [str(prompt.fields["answer"]) for prompt in prompts]
    short = [f"So the answer is ${text.rpartition('#### ')[2]}." for text in gold]
    changed = [text[:-1] + str((int(text[-1]) + 1) % 10) for text in gold]  # the last digit
    for texts, value in ((gold, 1), (short, 1), (changed, 0)):
        found = rewards([Sample(*each, True) for each in zip(prompts, [[1]] * len(gold), texts, strict=True)])
        assert [(text, reason) for text, total, reason in zip(texts, found.totals, found.reasons["maths"], strict=True)
                if total != value] == []
    assert len(gold) == 1319


@pytest.mark.parametrize("kind", ["decoder", "bare decoder", "encoder", "labels apart"])
def test_a_classifier_reads_its_own_tokens_and_scores_as_alone(kind: str, tmp_path: Path) -> None:
    """Whatever is padded beside: the decoder's padding ends its turns too, and the encoder has no template."""
    tokenizer, shape = make_tokenizer(), {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
                                          "num_attention_heads": 2, "max_position_embeddings": 32}
    torch.manual_seed(0)
    model: Any = LlamaForSequenceClassification(LlamaConfig(
        **shape, vocab_size=len(tokenizer), num_labels=1, pad_token_id=tokenizer.eos_token_id))
    label, tokenizer.pad_token = "", tokenizer.eos_token
    if kind == "bare decoder":
        tokenizer.pad_token = model.config.pad_token_id = None
    if kind in ("encoder", "labels apart"):
        model = BertForSequenceClassification(BertConfig(
            **shape, vocab_size=len(tokenizer), id2label={0: "bad", 1: "good"}, pad_token_id=tokenizer.pad_token_id))
        label, tokenizer.chat_template = "good", None
    if kind == "labels apart":
        model.config.problem_type = "multi_label_classification"
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    around = Surroundings(classifier=str(tmp_path))
    prompts = [Prompt(user("say " + "red " * number), [1]) for number in (1, 3, 2)]
    samples = [Sample(prompt, [1, 2], "blue", ended=True) for prompt in prompts]
    found = WeightedRewards({"classifier": {"label": label}}, around)(samples).totals
    for prompt, value in zip(prompts, found, strict=True):
        text = prompt.messages[0]["content"]
        ids: Any = (tokenizer(text, "blue", return_tensors="pt") if label else tokenizer.apply_chat_template(
            [*user(text), *assistant("blue")], return_dict=True, return_tensors="pt"))
        logits = model.eval()(**ids).logits[0].detach()
        shares = logits.sigmoid() if kind == "labels apart" else logits.softmax(0)
        assert value == pytest.approx(float(shares[1] if label else logits[0]), abs=1e-6)
    assert len({f"{value:.9f}" for value in found}) == 3
    with pytest.raises(InputError, match="label is 'other'"):
        WeightedRewards({"classifier": {"label": "other"}}, around)
    long = Sample(Prompt(user("red " * 40), [1]), [1], "blue", ended=True)
    with pytest.raises(StepError, match="which reads 32 at most"):
        WeightedRewards({"classifier": {"label": label}}, around)([long])
