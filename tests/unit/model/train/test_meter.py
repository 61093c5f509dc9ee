"""What one watches: which time is whose, and the use of a device whose peak is known."""

import itertools
import time

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from argosy.model.train import monitoring
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.parallel import Group
from argosy.model.train.phase import build_model
from argosy.model.train.sizing.gpus import gpu_of


def test_each_moment_of_a_step_belongs_to_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))  # a second from one lap to the next
    clock = monitoring.Clock(torch.device("cpu"))
    for _ in range(2):
        clock.start()
        for part in ("read", "forward", "backward", "forward", "backward"):
            clock.lap(part)
    first = clock.take()
    assert first == {**dict.fromkeys(monitoring.PARTS, 0.0), "read": 1000.0, "forward": 2000.0, "backward": 2000.0}
    clock.lap("log")
    clock.stop()
    clock.lap("forward")  # of an evaluation
    clock.start()
    clock.lap("read")
    assert clock.take() == {**dict.fromkeys(monitoring.PARTS, 0.0), "log": 1000.0, "read": 1000.0}


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


@pytest.mark.parametrize(("device", "name"), [
    ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA A100-SXM4-40GB", "a100-40"), ("NVIDIA H100 PCIe", None),
    ("NVIDIA A10G", None),
])
def test_a_device_is_known_by_its_whole_name(device: str, name: str | None) -> None:
    found = gpu_of(device)
    assert (found.name if found else None) == name
