"""Records of a phase that decide no result: times of its parts, use of a device, traces of steps, event files."""

import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.utils.flop_counter import FlopCounterMode

from argosy.core.errors import InputError
from argosy.core.store.step_files import result_files
from argosy.core.tracking.tracker import Tracker
from argosy.model.train import monitoring
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import build_model
from steps import anneal, pretrain
from tests.training_fixtures import Recorder, make_data, run_here

BASE: dict[str, Any] = {
    "sequence_length": 32, "global_batch_size": 8, "tokens": 3 * 256, "dtype": "float32", "heldout_points": 1,
    "model": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
              "num_key_value_heads": 1}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    make_data(directory, {"en": 40})
    return directory


def train(data: Path, out: Path, tracker: Tracker, **fields: Any) -> Any:
    return run_here(pretrain, out, tracker, **{"tokenized": data, "tokenizer": data, **BASE, **fields})


def test_chosen_steps_are_traced_and_all_else_stays(data: Path, tmp_path: Path) -> None:
    plain = pretrain.STEP.config.model_validate(BASE)
    traced = pretrain.STEP.config.model_validate({**BASE, "profile": {"steps": [2, 3]}, "tensorboard": True})
    assert traced.identity() == plain.identity()
    sent: list[tuple[Path, str]] = []
    tracker = Recorder()
    tracker.artifact = lambda path, folder="": sent.append((path, folder))  # type: ignore[method-assign]
    train(data, tmp_path, tracker, profile={"steps": [2, 3]})
    trace = tmp_path / "tracking/trace-2-3.json.gz"
    assert [each for each in sent if each[1]] == [(trace, "trace")]
    names = {event.get("name") for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]}
    assert {"step 2", "step 3", "aten::mm"} <= names
    assert "step 1" not in names
    assert not [name for name in result_files(tmp_path) if "trac" in name]


def test_event_files_need_their_package_and_hold_what_is_logged(data: Path, tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[Any, ...]] = []

    class Writer:
        """Stands for tensorboard's, which is not among the dependencies."""

        def __init__(self, folder: str, purge_step: int) -> None:
            held.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            held.append((name, step, value))

        def flush(self) -> None:
            """Nothing is held back."""

    fields: dict[str, Any] = {"tokens": 2 * 256, "log_every": 1, "tensorboard": True}
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"tensorboard=true .*pip install tensorboard"):
        train(data, tmp_path / "without", Recorder(), **fields)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    tracker = Recorder()
    train(data, tmp_path / "with", tracker, **fields)
    assert held[0] == (str(tmp_path / "with/tracking/tensorboard"), 0)
    curves = {key: value for key, value in tracker.logged.items() if not key[0].startswith("mixture/")}  # no curve
    assert {(name, step): value for name, step, value in held[1:]} == {**curves, **tracker.watched}


@pytest.mark.parametrize(("steps", "message"), [
    ([3, 2], r"steps=\[3, 2\] must be 1 or more and rise"), ([0, 2], "must be 1 or more"),
    ([3, 13], r"profile\.steps=\[3, 13\] ends after the phase, which has 12 steps")])
def test_steps_that_cannot_be_traced_are_refused(steps: list[int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        anneal.AnnealConfig(sequence_length=32, global_batch_size=8, tokens=12 * 256, profile={"steps": steps})


def test_the_use_of_a_gpu_is_of_its_peak_and_of_the_models_own_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ModelConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2)
    model = build_model(shape, 320, {})
    module = LossModule(model, 1, torch.float32, 0.0, 32, "eager")  # all pairs of which count
    ids = torch.zeros(4, 32, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        module(ids, ids)[0].backward()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    group = Group(world=2, device=torch.device("cuda", 0))
    full = monitoring._full_speed(TrainConfig(sequence_length=32), group, model)
    assert full == pytest.approx(2 * 989.4e12 / (counter.get_total_flops() / ids.numel()), rel=0.01)
    assert monitoring._full_speed(TrainConfig(sequence_length=32, dtype="float32"), group, model) == 0.0
    assert monitoring._full_speed(TrainConfig(sequence_length=32), Group(), model) == 0.0
