"""Learning from preferences on a tiny model: what is learnt, shared batches, experts, deaths, new methods."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from argosy.core.errors import InputError
from argosy.core.step.contract import Progress, StepContext
from argosy.corpus.data.schemas import assistant, user
from argosy.model.post.preferences import PreferenceMethodConfig, examples, learning, objective
from argosy.model.post.preferences.examples import Example, Feedback, Preference, hold_out, read_answers, split
from argosy.model.post.preferences.methods import METHODS
from argosy.model.post.preferences.objective import HeldOut, PreferenceLoss, rewards_of, tensors
from argosy.model.post.preferences.rewards import RewardLoss, merge_heads, start_reward_model, train_reward_model
from argosy.model.post.stage import Stage, open_source
from argosy.model.train.parallelism import Group
from argosy.model.weights.export import save_weights
from tests.posttraining_fixtures import make_checkpoint, make_tokenizer
from tests.step_fixtures import write_lines
from tests.training_fixtures import TINY_MODEL, Recorder

BETA = {"simpo": 2.0, "ipo": 0.3, "orpo": 1.0}


def make_pairs(count: int) -> list[Preference]:
    """The better answer begins with the prompt's first token, the worse one with another; lengths and channels vary."""
    generator, pairs = random.Random(0), []
    for number in range(count):
        right, wrong, *more = generator.choices(range(4, 12), k=2 + generator.randrange(3))
        prompt = [1, 12 + right, *more]
        better, worse = [30 + right, 2], [30 + (wrong if wrong != right else 4 + (right - 3) % 8), *more, 2]
        pairs.append(Preference(prompt, [*prompt, *better], [*prompt, *worse], "ab"[number % 2]))
    return pairs


PAIRS = make_pairs(96)


def make_model(kind: str = "LlamaForCausalLM", **fields: Any) -> Any:
    torch.manual_seed(3)
    shapes = {name: value for name, value in TINY_MODEL.items() if name != "model_type"}
    config = transformers.LlamaConfig(vocab_size=64, pad_token_id=0, **shapes, **fields)
    return getattr(transformers, kind)(config)


def stage_of(config: Any, out: Path, log: Recorder | None = None) -> Any:
    source: Any = SimpleNamespace(context=96)
    return Stage(config, StepContext(out, log or Recorder(), Progress(None)), Group(), source)


def settings(method: str, **fields: Any) -> PreferenceMethodConfig:
    usual = {"method": method, "beta": BETA.get(method, 0.1), "dtype": "float32", "batch_size": 16,
             "micro_batch_size": 8, "learning_rate": 5e-3, "max_steps": 30}
    return PreferenceMethodConfig(**{**usual, **fields})


def examples_of(method: str, pairs: list[Preference]) -> list[Any]:
    return split(pairs) if METHODS[method].single else list(pairs)


@pytest.mark.parametrize("method", ["dpo", "robust", "ipo", "kto", "orpo", "simpo"])
def test_separable_pairs_are_told_apart(tmp_path: Path, method: str) -> None:
    log, model = Recorder(), make_model()
    config = settings(method, heldout_points=3)
    evaluate = HeldOut(config.chosen, PAIRS[64:], 0, 16)
    before = evaluate(model)
    trained = learning.learn(stage_of(config, tmp_path, log), model, examples_of(method, PAIRS[:64]), evaluate)
    after = evaluate(trained.model)
    assert after["heldout/preference_accuracy"] >= 0.9 > before["heldout/preference_accuracy"]
    assert after["heldout/preference_loss"] < before["heldout/preference_loss"]
    parts = [after[f"heldout/preference_accuracy/{channel}"] for channel in "ab"]  # as many pairs of each
    assert sum(parts) / 2 == pytest.approx(after["heldout/preference_accuracy"])
    assert [step for name, step in log.logged if name == "heldout/preference_loss"] == [10, 20]
    assert {"train/loss/a", "train/accuracy/b", "train/margin/a"} <= {name for name, _ in log.logged}


def test_a_reward_model_of_several_heads_tells_pairs_apart_and_loads_anywhere(tmp_path: Path) -> None:
    model = make_model("LlamaForSequenceClassification", num_labels=3)
    given = [pair.chosen_ids for pair in PAIRS[:5]]
    log = Recorder()

    def evaluate(model: Any) -> dict[str, float]:
        return objective.reward_metrics(model, PAIRS[64:], 0, 16)

    trained = train_reward_model(stage_of(settings("dpo"), tmp_path, log), model, PAIRS[:64], 0.01, evaluate)
    found = evaluate(trained.model)
    assert found["heldout/preference_accuracy"] >= 0.9
    assert found["heldout/preference_brier"] < 0.15
    assert log.logged["train/spread", 30] > 0
    trained.model.save_pretrained(tmp_path / "export")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "export")
    heads = torch.stack([loaded(torch.tensor([ids])).logits[0] for ids in given]).detach()
    assert rewards_of(loaded, given, 0, 2) == pytest.approx(heads.mean(dim=1).tolist(), abs=1e-5)
    cautious = heads.mean(dim=1) - 2 * heads.std(dim=1, correction=0)
    assert rewards_of(loaded, given, 0, 2, caution=2.0) == pytest.approx(cautious.tolist(), abs=1e-5)
    assert rewards_of(merge_heads(loaded), given, 0, 2) == pytest.approx(heads.mean(dim=1).tolist(), abs=1e-5)


@pytest.mark.parametrize("pad", ["<|end|>", "<|pad|>"])
def test_transformers_reads_a_reward_where_training_does_whatever_pad_is(tmp_path: Path, pad: str) -> None:
    """In batches padded on either side, of conversations that its own tokenizer renders; the line break that the
    template writes after a turn would be another place."""
    make_checkpoint(tmp_path / "base")
    source = open_source("checkpoint", str(tmp_path / "base"), "cpu")
    source.tokenizer.pad_token = pad
    source.tokenizer.chat_template = source.tokenizer.chat_template.replace(
        "<|end|>{% endgeneration %}", "<|end|>{% endgeneration %}{{ '\n' }}")
    talks = [[*user("say red " * (1 + 3 * number)), *assistant(words)]
             for number, words in enumerate(("red red", "blue", "a red cat"))]
    parse = examples.preference_parser(source.tokenizer, 96)
    ids = [parse({"prompt": talk[:1], "chosen": talk[1:], "rejected": assistant("x")}).chosen_ids for talk in talks]
    stage = Stage(settings("dpo"), StepContext(tmp_path, Recorder(), Progress(None)), Group(), source)
    model = start_reward_model(stage, 1)
    torch.nn.init.normal_(model.score.weight)
    (tmp_path / "export").mkdir()
    save_weights(model, tmp_path / "export")
    source.tokenizer.save_pretrained(tmp_path / "export")

    loss = RewardLoss(model, 0.0, 1, torch.float32, 96)
    pairs = [Preference(row[:-1], row, row) for row in ids]
    laid = tensors(pairs, "cpu", prompts=False)
    ends = laid[2].flatten().bincount().cumsum(0) - 1
    trained = objective.rewards_at(model, loss.hidden(laid[0], laid[2], laid[3])[0][ends])[::2, 0].tolist()
    assert rewards_of(model, ids, source.pad_id, 2) == pytest.approx(trained, abs=1e-4)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "export").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "export")
    assert loaded.config.pad_token_id == tokenizer.pad_token_id
    for side in ("left", "right"):
        tokenizer.padding_side = side
        batch = tokenizer.apply_chat_template(talks, padding=True, return_tensors="pt", return_dict=True)
        assert loaded(**batch).logits[:, 0].tolist() == pytest.approx(trained, abs=1e-4), side
    alone = [tokenizer.apply_chat_template(talk, return_tensors="pt", return_dict=True) for talk in talks]
    assert [loaded(**each).logits.item() for each in alone] == pytest.approx(trained, abs=1e-4)


def test_rounding_of_long_answers_prefers_none() -> None:
    """Before the first update a policy is its own reference, whose sums were made in other rows."""
    pairs = [Preference([1], [1, *random.Random(n).choices(range(4, 64), k=60)], [1, *range(4, 64)]) for n in range(4)]
    device = torch.device("cpu")
    module = PreferenceLoss(make_model(), settings("dpo").chosen, 1, torch.float32, 1024)
    given = tensors(pairs, device, prompts=False)
    own = module(*given).detach()
    rounded = own + torch.tensor([2e-5, -2e-5] * 4)  # an ulp of so many nats
    assert -300 < float(own.max()) < -200
    _, sums = module(*given, rounded, *objective.about(pairs, [pairs[0].channel], [1.0], device), torch.tensor(60.0))
    assert sums.tolist()[1] == 2.0  # all four count half


def test_examples_of_a_prompt_are_held_out_together() -> None:
    answers: list[Example] = [Feedback([1, at % 10], [1, at % 10, at], good=at < 20) for at in range(40)]
    train, heldout = hold_out(answers, 9, seed=0)
    assert 0 < len(heldout) <= 9
    assert len(train) + len(heldout) == 40
    assert not {tuple(each.prompt_ids) for each in train} & {tuple(each.prompt_ids) for each in heldout}
    assert hold_out(answers, 9, seed=1)[1] != heldout
    with pytest.raises(InputError, match="name a file of others as `heldout`"):
        hold_out(answers[:3], 9, seed=0)
    evaluate = HeldOut(settings("kto").chosen, heldout, 0, 4)
    assert evaluate(make_model())["heldout/feedback_auc"] == 0.5  # the policy is the reference


def test_answers_come_from_feedback_and_from_pairs_split_in_two(tmp_path: Path) -> None:
    feedback = [{"prompt": user(f"say {at}"), "completion": assistant("red"), "label": at % 2 == 0, "channel": "zh"}
                for at in range(8)]
    pair = {"prompt": user("say"), "chosen": assistant("red"), "rejected": assistant("blue")}
    write_lines(tmp_path / "feedback.jsonl", [*feedback, pair, {**feedback[0], "label": "yes"}])
    config = settings("kto", data=str(tmp_path), preferences="feedback.jsonl", heldout="")
    stage = stage_of(config, tmp_path)
    stage.source.tokenizer = make_tokenizer()
    train, heldout = read_answers(stage)
    assert len(train) + len(heldout) in (9, 10)  # a pair counts one where it is held out
    assert 0 < len(heldout) <= 2
    assert {each.good for each in train} == {True, False}
    assert "label" in (tmp_path / "rejects/feedback.jsonl").read_text()
