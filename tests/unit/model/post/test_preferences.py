"""Losses of preferences and rewards equal TRL's, on a fixed batch of pairs of several lengths."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from datasets import Dataset

from argosy.core.errors import InputError
from argosy.model.post.preferences import PreferenceMethodConfig
from argosy.model.post.preferences.examples import Example, Feedback, Preference, split
from argosy.model.post.preferences.learning import _put, partners
from argosy.model.post.preferences.methods import METHODS, Answers, SingleMethod
from argosy.model.post.preferences.objective import PreferenceLoss, about, calibration, labels, tensors
from argosy.model.post.preferences.rewards import RewardLoss
from tests.posttraining_fixtures import make_tokenizer

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13], [14]]
CHOSEN = [[20, 21], [22, 23, 24], [25], [26, 27, 28]]
REJECTED = [[30], [31, 32], [33, 34, 35], [36, 37]]
PAIRS = [Preference(p, [*p, *c], [*p, *r], margin=0.5 * at)
         for at, (p, c, r) in enumerate(zip(PROMPTS, CHOSEN, REJECTED, strict=True))]
ROWS = [pair.chosen_ids for pair in PAIRS] + [pair.rejected_ids for pair in PAIRS]


def make_model(seed: int, kind: str = "LlamaForCausalLM", **fields: Any) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, pad_token_id=2,
                                      initializer_range=0.3, **fields)
    return getattr(transformers, kind)(config)


def ours(method: str, examples: Sequence[Example], divergence: float = 0.0, **fields: Any) -> Any:
    """The mean loss of the examples, with the policy's gradient."""
    config = PreferenceMethodConfig(method=method, **fields)
    way = config.chosen
    policy, reference = (PreferenceLoss(make_model(seed), way, 1, torch.float32, 64) for seed in (1, 2))
    given = tensors(examples, "cpu", prompts=way.prompts)
    with torch.no_grad():
        before = reference(*tensors(examples, "cpu", prompts=False))
    usual = sum(len(example.sides[0]) - 1 for example in examples) / len(examples)
    more = [labels(examples, "cpu"), torch.tensor(divergence)] if way.single else []
    loss, sums = policy(*given, before, *about(examples, ["default"], [1.0], "cpu"), torch.tensor(usual), *more)
    (loss / len(examples)).backward()
    assert sums[3] == len(examples)
    return loss.item() / len(examples), policy.model.lm_head.weight.grad


def theirs(trainer: Any, batch: dict[str, Any]) -> Any:
    trainer.model.train()
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    return loss.item(), trainer.model.lm_head.weight.grad


def assert_equal(found: Any, expected: Any) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert torch.allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


def padded(rows: Sequence[Sequence[int]], value: int = 2) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def batch_of(rows: Sequence[Sequence[int]], starts: Sequence[int], prefix: str = "") -> dict[str, Any]:
    """Rows as TRL collates them, whose answers start there."""
    marks = [[0] * start + [1] * (len(row) - start) for row, start in zip(rows, starts, strict=True)]
    return {f"{prefix}input_ids": padded(rows), f"{prefix}attention_mask": padded([[1] * len(row) for row in rows], 0),
            f"{prefix}completion_mask": padded(marks, 0)}


def common(tmp_path: Path) -> dict[str, Any]:
    return {"output_dir": str(tmp_path), "report_to": "none", "use_cpu": True, "per_device_train_batch_size": 4,
            "gradient_checkpointing": False, "bf16": False}


def dataset() -> Any:
    return Dataset.from_dict({"prompt": ["a"] * 4, "chosen": ["b"] * 4, "rejected": ["c"] * 4})


@pytest.mark.parametrize(("method", "kind", "fields"), [
    ("dpo", "sigmoid", {"beta": 0.3}), ("ipo", "ipo", {"beta": 0.3}),
    ("robust", "robust", {"beta": 0.3, "label_smoothing": 0.1}),
])
def test_losses_of_pairs_equal_trls(tmp_path: Path, method: str, kind: str, fields: dict[str, float]) -> None:
    from trl import DPOConfig, DPOTrainer

    arguments = DPOConfig(**common(tmp_path), loss_type=kind, max_length=None, **fields)
    trainer = DPOTrainer(make_model(1), make_model(2), arguments, train_dataset=dataset(),
                         processing_class=make_tokenizer())
    batch = batch_of(ROWS, [len(pair.prompt_ids) for pair in PAIRS * 2])
    assert_equal(ours(method, PAIRS, **fields), theirs(trainer, batch))


def _concatenated() -> dict[str, Any]:
    """A batch as CPOTrainer and ORPOTrainer collate it."""
    batch = {}
    for name, side in (("chosen", "chosen_ids"), ("rejected", "rejected_ids")):
        rows = [getattr(pair, side) for pair in PAIRS]
        goals = [[-100] * len(pair.prompt_ids) + row[len(pair.prompt_ids) :]
                 for row, pair in zip(rows, PAIRS, strict=True)]
        batch |= {f"{name}_input_ids": padded(rows), f"{name}_labels": padded(goals, -100),
                  f"{name}_attention_mask": padded([[1] * len(row) for row in rows], 0)}
    return batch


@pytest.mark.parametrize(("method", "kind", "fields", "names"), [
    ("orpo", "ORPO", {"beta": 0.2}, {"beta": 0.2}),
    ("simpo", "CPO", {"beta": 2.0, "gamma": 0.8},
     {"loss_type": "simpo", "cpo_alpha": 0.0, "beta": 2.0, "simpo_gamma": 0.8}),
])
def test_losses_without_a_reference_equal_trls(tmp_path: Path, method: str, kind: str, fields: Any, names: Any) -> None:
    module = importlib.import_module(f"trl.experimental.{kind.lower()}")
    arguments = getattr(module, f"{kind}Config")(**common(tmp_path), max_length=64, **names)
    trainer = getattr(module, f"{kind}Trainer")(make_model(1), arguments, train_dataset=dataset(),
                                                processing_class=make_tokenizer())
    assert_equal(ours(method, PAIRS, **fields), theirs(trainer, _concatenated()))


def test_kahneman_tversky_optimization_equals_trls(tmp_path: Path) -> None:
    """The divergence is that of answers put to the next prompt."""
    from trl import KTOConfig, KTOTrainer


    examples = split(PAIRS)
    arguments = KTOConfig(**(common(tmp_path) | {"per_device_train_batch_size": 8}), beta=0.3, desirable_weight=1.5,
                          undesirable_weight=0.5, max_length=None)
    rows = Dataset.from_dict({"prompt": ["a"] * 4, "completion": ["b"] * 4, "label": [True, False] * 2})
    trainer = KTOTrainer(make_model(1), make_model(2), arguments, train_dataset=rows, processing_class=make_tokenizer())
    others = [_put(one, other, 64) for one, other in zip(examples, [*examples[1:], examples[0]], strict=True)]
    batch: dict[str, Any] = {"label": labels(examples, "cpu")}
    for prefix, chosen in (("", examples), ("KL_", others)):
        batch |= batch_of([each.ids for each in chosen], [len(each.prompt_ids) for each in chosen], prefix)
    way = PreferenceMethodConfig(method="kto", beta=0.3).chosen
    with torch.no_grad():
        scores = [PreferenceLoss(make_model(seed), way, 1, torch.float32, 64)(
            *tensors(others, "cpu", prompts=False)) for seed in (1, 2)]
    divergence = float((scores[0] - scores[1]).mean().clamp(min=0))
    found = ours("kto", examples, divergence, beta=0.3, desirable_weight=1.5, undesirable_weight=0.5)
    assert_equal(found, theirs(trainer, batch))


def test_an_answer_is_put_to_a_different_prompt_whatever_the_batch() -> None:
    """Never to its own: the divergence would be its implicit reward."""
    prompts = [7, 7, 7, 8, 8, 9]
    examples = [Feedback([first], [first, 20 + at], good=True) for at, first in enumerate(prompts)]
    assert partners(examples, [[0], [1], [3], [4], [5]]) == [[3], [3], [5], [5], [0]]
    assert partners(examples, [[0, 1, 3], [2, 5, 4]]) == [[3, 3, 0], [5, 4, 2]]
    assert partners(examples, [[0, 1], [3, 4]]) == [[3, 3], [0, 0]]
    with pytest.raises(InputError, match="the 3 answers to learn from have one prompt"):
        partners(examples, [[0, 1], [2]])


@pytest.mark.parametrize("sides", [(0.0, -2.0), (-2.0, 0.0), (0.0, 0.0), (-1e-12, -2.0)])
@pytest.mark.parametrize("method", METHODS)
def test_answers_of_probability_1_have_finite_losses_and_a_way_back(method: str, sides: tuple[float, float]) -> None:
    """A short answer that the model is sure of has log-probability 0 in float32."""
    found = [torch.tensor([value], requires_grad=True) for value in sides]
    chosen, rejected = (Answers(each, torch.tensor([-1.0]), torch.tensor([1.0]), each) for each in found)
    way = PreferenceMethodConfig(method=method).chosen
    if isinstance(way, SingleMethod):
        loss = sum(way.single_losses(each, torch.tensor([good]), torch.tensor(0.0))
                   for each, good in ((chosen, True), (rejected, False)))
    else:
        loss = way.total(chosen, rejected)
    loss.backward()
    assert loss.isfinite()
    assert all(each.grad.isfinite() for each in found)
    assert found[1].grad > 0  # the worse answer is made less probable


def test_the_reward_models_loss_equals_trls_with_margins_and_centering(tmp_path: Path) -> None:
    from trl import RewardConfig, RewardTrainer

    model, other = (make_model(3, "LlamaForSequenceClassification", num_labels=1) for _ in range(2))
    trainer = RewardTrainer(other, RewardConfig(**common(tmp_path), center_rewards_coefficient=0.05, max_length=None),
                            train_dataset=dataset(), processing_class=make_tokenizer())
    margins = torch.tensor([pair.margin for pair in PAIRS])
    trainer.model.train()
    expected = trainer.compute_loss(trainer.model, {
        "input_ids": padded(ROWS), "attention_mask": padded([[1] * len(row) for row in ROWS], 0), "margin": margins})
    expected.backward()
    module = RewardLoss(model, 0.05, 1, torch.float32, 64)
    loss, sums = module(*tensors(PAIRS, "cpu", prompts=False), *about(PAIRS, ["default"], [1.0], "cpu"), margins)
    (loss / len(PAIRS)).backward()
    assert loss.item() / len(PAIRS) == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(model.score.weight.grad, other.score.weight.grad, rtol=1e-4, atol=1e-6)
    assert sums[4] == len(PAIRS)


def test_calibration_by_hand() -> None:
    """Two pairs of margin +-2 (0.8808), one right; one of 0.1 (0.525), right."""
    found = calibration(torch.tensor([2.0, -2.0, 0.1]))
    brier = ((1 - 0.880797) ** 2 + 0.880797**2 + (1 - 0.524979) ** 2) / 3
    error = (abs(2 * 0.880797 - 1) + abs(1 - 0.524979)) / 3
    assert found["heldout/preference_brier"] == pytest.approx(brier, abs=1e-5)
    assert found["heldout/preference_calibration_error"] == pytest.approx(error, abs=1e-5)


@pytest.mark.parametrize(("fields", "message"), [
    ({"method": "dop"}, "method='dop' is not there; nearest: dpo"),
    ({"method": "ipo", "label_smoothing": 0.1}, "label_smoothing=0.1 is not of method=ipo, which reads beta"),
    ({"method": "orpo", "sft_weight": 1.0}, "sft_weight=1.0 is not of method=orpo"),
])
def test_what_a_method_does_not_read_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PreferenceMethodConfig(**fields)
