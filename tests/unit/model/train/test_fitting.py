"""Micro-batches that are found by trying or by the planner, advice where nothing fits, and weights of channels."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F

from argosy.core.errors import InputError, StepError
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import fitting
from argosy.model.train.engines.fitting import explained, settled
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import loss_weights
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.job import read_job, read_layout
from argosy.model.train.sizing.memory import memory as needed
from tests.training_fixtures import random_batch, tiny_engine, weights_of


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A device whose memory holds `samples` of a micro-batch, and where trying is possible."""
    held = {"samples": 4, "tried": 0}
    backward = TorchEngine._backward

    def limited(self: TorchEngine, part: Any, targets: torch.Tensor, *, last: bool) -> torch.Tensor:
        held["tried"] += 1
        found = backward(self, part, targets, last=last)
        if len(part[0]) > held["samples"] or held["samples"] == 0:  # when gradients are there already
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore")
        return found

    monkeypatch.setattr(TorchEngine, "_backward", limited)
    monkeypatch.setattr(fitting, "_can_try", lambda config, group: True)
    return held


def test_the_largest_micro_batch_that_fits_is_found_and_changes_no_result(memory: dict[str, int]) -> None:
    whole = tiny_engine()
    found = tiny_engine(micro_batch_size="auto")
    for step in range(3):
        memory["samples"] = 4
        ours = whole.train_step(random_batch(step), 1e-2)
        memory["samples"] = 2 if step < 2 else 1
        memory["tried"] = 0
        theirs = found.train_step(random_batch(step), 1e-2)
        assert memory["tried"] == (1 + 2, 2, 1 + 4)[step]  # what did not fit, then the parts of what does
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert found.micro_batch.size == 1
    torch.testing.assert_close(weights_of(whole), weights_of(found), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", ["auto", 4])
def test_where_nothing_fits_the_error_has_the_planners_advice(memory: dict[str, int], size: Any) -> None:
    memory["samples"] = 0
    made = tiny_engine(micro_batch_size=size)
    with pytest.raises(StepError) as caught, explained(made.config, made.module.model, made.group):
        made.train_step(random_batch(0), 1e-2)
    words = str(caught.value).splitlines()
    reason = "the forward and backward of one sample do not fit" if size == "auto" else (
        "CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert words[0] == f"memory ran out ({reason}). What to change, the first to try first:"
    assert "the estimate is" in words[1]
    assert any(line.startswith("  micro_batch_size=1 ") for line in words) == (size == 4)
    assert any("recompute=full" in line for line in words)


def test_where_trying_cannot_be_the_planner_says_the_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_engine().module.model
    config = TrainConfig(micro_batch_size="auto", global_batch_size=64, sequence_length=64)
    fields = config.model_dump() | {"micro_batch_size": 16}
    job = read_job(fields, read_architecture(model.config.to_dict()), on_cpu=True)
    usable = needed(job, read_layout(config.model_dump(), 1, on_cpu=True)).total
    for held, size in ((usable + 1e4, 16), (usable - 1e4, 8), (1e12, 64)):
        monkeypatch.setattr(fitting, "usable_memory_gb", lambda held=held: held / 0.92 / 1e9)
        assert settled(config, model, Group()).micro_batch_size == size
    model.config.num_hidden_layers = 8
    config = TrainConfig(recompute="full", recompute_blocks="auto", global_batch_size=64, sequence_length=512)
    layout = read_layout(config.model_dump(), 1, on_cpu=True)
    job = read_job(config.model_dump(), read_architecture(model.config.to_dict()), on_cpu=True)
    for share in (0.25, 0.75, 1.0):
        held = needed(job, replace(layout, recomputed=share)).total + 1e4
        monkeypatch.setattr(fitting, "usable_memory_gb", lambda held=held: held / 0.92 / 1e9)
        assert settled(config, model, Group()).recompute_blocks == share
    other = SimpleNamespace(config=SimpleNamespace(to_dict=lambda: {"model_type": "other"}))
    with pytest.raises(InputError, match=r"this model is unknown .*: give a number"):
        settled(config, other, Group())
    with pytest.raises(ValidationError, match="micro_batch_size=auto is not for pipeline_parallel=2"):
        TrainConfig(micro_batch_size="auto", pipeline_parallel=2, processes=2)


def test_the_gradient_is_of_the_mean_weighted_by_channel_and_the_losses_are_not() -> None:
    weights = torch.tensor([1.0, 0.25])
    batch = random_batch(0, channels=2)
    made = tiny_engine(channels=2, micro_batch_size=2, max_grad_norm=1e9)
    plain, _, _ = tiny_engine(channels=2).train_step(batch, 0.0)
    model = made.module.model
    logits = model(torch.from_numpy(batch.inputs)).logits.flatten(0, 1)
    each = F.cross_entropy(logits, torch.from_numpy(batch.targets).flatten(), reduction="none")
    shares = weights[torch.from_numpy(batch.channels).flatten()]
    expected = torch.autograd.grad((shares * each).sum() / shares.sum(), list(model.parameters()))
    made.weigh(weights.tolist())
    sums, counts, norm = made.train_step(batch, 0.0)
    assert float(norm) == pytest.approx(float(torch.cat([grad.flatten() for grad in expected]).norm()), rel=1e-5)
    torch.testing.assert_close(sums, plain)
    assert counts.tolist() == [32, 32]
    made._accumulate(made._tensors(batch), shares.sum())
    for parameter, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-4, atol=1e-7)


def test_weights_are_of_channels_that_there_are() -> None:
    config = TrainConfig(loss_weights={"code": 0.5})
    assert loss_weights(config, ("code", "en")) == [0.5, 1.0]
    with pytest.raises(InputError, match=r"loss_weights\.code: no channel of the data has this name; nearest: mode"):
        loss_weights(config, ("en", "mode"))
    assert TrainConfig().identity() == TrainConfig(loss_weights={}).identity()
    assert "loss_weights" not in TrainConfig().identity()
