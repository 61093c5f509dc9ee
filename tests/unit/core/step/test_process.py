"""Threads of torch come from the config, its device from the rank: the cores of a process do not touch a result."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from argosy.core.errors import InputError
from argosy.core.step.contract import Progress, StepContext, counted
from argosy.core.step.process import show_one_gpu
from argosy.core.tracking.tracker import Tracker
from tests.processes import ROOT, run_python
from workflows.local.view import progress_text

PROGRAM = """
import hashlib, sys
from argosy.core.step.process import limit_threads
limit_threads()
from argosy.core.step.process import make_deterministic
make_deterministic(7, int(sys.argv[1]))
import torch
values = torch.randn(3, 1_000_003)
sums = torch.stack([values.sum(), values.exp().mean(), (values @ values.T).sum()])
digest = hashlib.sha256(sums.numpy().tobytes()).hexdigest()
print(torch.get_num_threads(), digest)
"""


def _run(threads: int, given: str | None) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"ARGOSY_THREADS": given, "OMP_NUM_THREADS": given} if given else {})
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(threads)], env=environment, cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_threads_of_the_config_change_bytes_and_those_of_the_process_do_not() -> None:
    """Why `threads` is part of the digest."""
    results = [_run(2, given) for given in ("1", "4")]
    assert [count for count, _ in results] == ["2"] * 2
    assert len({digest for _, digest in results}) == 1
    assert _run(1, None)[1] != results[0][1]


def test_each_rank_has_a_gpu_of_its_own_or_all_are_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def device(gpus: int, rank: int) -> torch.device:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        found = StepContext(tmp_path, Tracker(None), Progress(None), rank, 2, rank).device
        assert isinstance(found, torch.device)
        return found

    assert [device(0, rank).type for rank in (0, 1)] == ["cpu", "cpu"]
    assert [device(4, rank) for rank in (0, 1)] == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(InputError, match="processes is 2, and this step sees 1 of the GPUs: each needs its own"):
        device(1, 0)


ON_ASCEND = """
from pathlib import Path
from unittest.mock import Mock, patch
import torch, torch.distributed as dist
from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.tracker import Tracker
from argosy.model.train.parallelism import join_group
torch.utils.rename_privateuse1_backend("npu")
torch.npu = Mock(**{"is_available.return_value": True, "device_count.return_value": 2})
with patch.object(dist, "init_process_group") as joined, patch.object(
        dist.Backend, "default_device_backend_map", {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}):
    group = join_group(StepContext(Path("."), Tracker(None), Progress(None), 1, 2, 1))
torch.npu.set_device.assert_called_once_with(torch.device("npu:1"))
print(group.device, *joined.call_args[0])
"""


def test_a_rank_on_ascend_has_an_npu_of_its_own_and_its_group_speaks_by_hccl() -> None:
    """Of a module `torch.npu` that is not there, with the names and the back end that torch_npu registers; in a process
    of its own, which alone can have a device more."""
    done = run_python("-c", ON_ASCEND)
    assert done.stdout.split() == ["npu:1", "hccl"], done.stderr


@pytest.mark.parametrize(("before", "after"), [("2,3", "2"), ("GPU-x", "GPU-x"), ("", "")])
def test_a_lone_process_sees_one_gpu(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    for name in ("ARGOSY_GPUS", "ASCEND_RT_VISIBLE_DEVICES"):  # set below, and not left to tests that follow
        monkeypatch.setenv(name, "")
    show_one_gpu()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == after
    assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == ("2" if "," in before else "")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """All that progress.json was, as if each write were due."""
    records: list[dict[str, Any]] = []
    monkeypatch.setattr("argosy.core.step.contract._INTERVAL_S", 0.0)
    monkeypatch.setattr("argosy.core.step.contract.write_json", lambda path, record, durable: records.append(record))
    return records


def test_a_part_has_its_own_rate_and_a_finer_count_adds_to_it(written: list[dict[str, Any]],
                                                              monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("argosy.core.step.contract.time",
                        SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now))
    progress, texts = Progress(tmp_path / "progress.json"), []
    clock.now += 50  # a model is loaded
    progress.update(0, 4, "steps")
    with progress.during("held-out"):
        for batch in counted(["abcd", "efgh"], 8, "answers"):
            for _ in counted(batch, len(batch), "answers"):
                clock.now += 2
                texts.append(progress_text(written[-1]))
    progress.update(1, 4, "steps")
    assert texts[1] == "  0 %  0/4 steps  held-out:   12 %  1/8 answers  0.5/s  ETA 14s"
    assert texts[-1] == "  0 %  0/4 steps  held-out:   88 %  7/8 answers  0.5/s  ETA 2.0s"
    assert progress_text(written[-1]) == " 25 %  1/4 steps  0.062/s  ETA 48s"  # not slower for the loading
    progress.update(4, 4, "steps")
    assert progress_text(written[-1]) == "4/4 steps  finishing"
