"""Rollouts ahead of their updates: which weights sample each, and that a thread makes them meanwhile."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import steps.rlhf
from argosy.core.errors import StepError
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.rollout import Ahead, Rollout
from tests.posttraining_fixtures import GRPO
from tests.training_fixtures import Recorder, digests, run_here


class Collected:
    """Stands for a Collector: its rollouts are numbered, and know the weights that were published last."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.made, self.version = 0, -1
        self.sampler: Any = threading.Event()
        self.sampler.cancelled = threading.Event()

    def use_group_of_its_own(self) -> None:
        pass

    def publish(self, version: int) -> None:
        self.version = version

    def collect(self) -> Rollout:
        self.made += 1
        return Rollout(places=[self.made - 1], version=self.version, seconds=1.0)


def ahead(staleness: int, collected: Any, steps: int = 6, *, overlap: bool = True) -> Ahead:
    return Ahead(collected, RLHFConfig(staleness=staleness, overlap=overlap), steps)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_each_rollout_is_sampled_by_the_weights_of_so_many_updates_before(staleness: int, overlap: bool) -> None:
    collected = Collected()
    rollouts = ahead(staleness, collected, overlap=overlap)
    found = []
    for number in range(6):
        rollouts.prepare(number)
        found.append(rollouts.take(number))
        rollouts.start(number)
        if number == 3:  # resumed: what waits is made, and goes on where it was
            waiting = rollouts.state()
            rollouts.close()
            rollouts = ahead(staleness, collected, overlap=overlap)
            rollouts.restore(waiting)
    assert [each.places for each in found] == [[number] for number in range(6)]
    assert [each.version for each in found] == [max(0, number - staleness) for number in range(6)]
    assert collected.made == 6  # none that nobody learns from
    rollouts.close()


def test_what_generation_fails_with_is_raised_where_it_is_waited_for() -> None:
    collected = Collected()
    rollouts = ahead(1, collected)
    rollouts.prepare(0)
    rollouts.take(0)
    collected.collect = lambda: (_ for _ in ()).throw(StepError("no answer"))  # type: ignore[method-assign]
    rollouts.start(0)
    with pytest.raises(StepError, match="no answer"):
        rollouts.state()
    rollouts.close()


@pytest.mark.parametrize("more", [{}, {"lora": {"rank": 2}}], ids=["weights", "adapters"])
def test_the_same_bytes_whether_generation_runs_beside_the_update(root: Path, tmp_path: Path, more: Any) -> None:
    fields: dict[str, Any] = {
        "checkpoint": root / "base", "data": root / "data", **GRPO, "max_steps": 4, "staleness": 2, "save_every": 50,
        "guards": {"true_reward": {"ended": 1.0}, "true_every": 2}, **more}
    logs = {}
    for overlap in (True, False):
        logs[overlap] = Recorder()
        run_here(steps.rlhf, tmp_path / str(overlap), logs[overlap], overlap=overlap, **fields)
    assert digests(tmp_path / "True") == digests(tmp_path / "False")
    assert logs[True].logged == logs[False].logged
    assert min(logs[True].logged["train/grad_norm", step] for step in (1, 2, 3)) > 0  # so that weights change
    assert [logs[True].logged["rlhf/staleness", step] for step in (1, 2, 3, 4)] == [0, 1, 2, 2]
    beside = {over: [logs[over].watched["time/overlap_ms", step] for step in (2, 3, 4)] for over in logs}
    assert max(beside[True]) > max(beside[False]) == 0
    assert logs[True].watched["perf/generated_tokens_per_second", 4] > 0
