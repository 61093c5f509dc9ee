"""The loop's meetings with other processes, and when its states are due."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from argosy.core.step import contract
from argosy.core.step.contract import Progress, StepContext, Watched
from argosy.core.store.step_files import WATCH
from argosy.core.tracking.tracker import Tracker
from argosy.model.train import loop
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.watch import WatchConfig
from argosy.model.train.decisions import Turn
from argosy.model.train.loop import CHEAP, FIRST, LEAST_S, MONTH_S, MOST_S, Due, Loop, best_interval
from argosy.model.train.parallelism import Group
from argosy.model.train.updates import Measured
from tests.one_weight import OneWeight


@dataclass(frozen=True)
class Noting(Group):
    """A group that notes whether each of its sums would be called late."""

    watched: Watched = field(default_factory=lambda: Watched(0.0))
    found: list[bool] = field(default_factory=list)

    def sum(self, tensor: Tensor) -> Tensor:
        self.found.append(bool(self.watched.late()))
        return tensor


def test_processes_that_meet_after_a_step_are_watched_unless_something_else_was_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that is frozen between two steps hangs the others; one that writes a state keeps them waiting rightly."""
    monkeypatch.setattr(contract, "_TIMED", 0)
    monkeypatch.setattr(contract, "_LATE", 0)
    group, engine = Noting(), OneWeight(10)
    engine.group = group
    context = StepContext(tmp_path, Tracker(None), Progress(None, watched=group.watched))
    config = TrainConfig(tokens=8 * 32 * 128, save_every=3)
    evaluated = {5: {"heldout/loss": 1.0}}
    updates = Measured(lambda turn: {"train/loss": 1.0}, evaluate=lambda step: evaluated.get(step, {}))
    Loop(config, context, engine, updates, 8).run()
    assert group.found == [step not in (3, 5, 6) for step in range(1, 9)]


class OfRankZero(Group):
    """A group whose first process has read a decision."""

    def agreed(self, value: Any) -> Any:
        return [{"passed": [0], "rate": None, "action": "back", "step": 0}] if isinstance(value, list) else value


def test_a_rank_that_sees_an_older_record_of_decisions_trains_on_the_batches_of_rank_0(tmp_path: Path) -> None:
    (tmp_path / WATCH).write_text(json.dumps({"decisions": []}))
    engine, batches = OneWeight(10), list[int]()
    engine.group = OfRankZero()

    def update(turn: Turn) -> dict[str, float]:
        batches.append(turn.batch)
        return {"train/loss": 1.0}

    context = StepContext(tmp_path, Tracker(None), Progress(None))
    Loop(TrainConfig(tokens=2 * 32 * 128), context, engine, Measured(update), 2).run()
    assert batches == [1, 2]


def _lost(interval: float, save: float, between: float) -> float:
    """Daly's model (2006, equation 20, restarts aside): expected seconds per second of work; failures exponential."""
    return between * math.expm1((interval + save) / between) / interval


@pytest.mark.parametrize(("save", "between"), [(1.0, 1e6), (5.0, 32_400.0), (60.0, 3600.0), (300.0, 3600.0)])
def test_the_interval_loses_the_least(save: float, between: float) -> None:
    """No interval a fiftieth longer or shorter, nor Young's first order, loses less, but for Daly's remainder."""
    best = best_interval(save, between)
    young = math.sqrt(2 * save * between)
    assert best == pytest.approx(young * (1 + math.sqrt(save / 2 / between) / 3 + save / 2 / between / 9) - save)
    for other in (0.8 * best, 1.25 * best, young + save):
        assert _lost(best, save, between) < _lost(other, save, between)
    tried = [between * number / 20_000 for number in range(1, 40_000)]
    optimum = min(tried, key=lambda each: _lost(each, save, between))
    assert _lost(best, save, between) == pytest.approx(_lost(optimum, save, between), rel=1e-5)


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def states(monkeypatch: pytest.MonkeyPatch, step_s: float, save_s: float, steps: int, carried: float = 0.0,
           **fields: object) -> list[int]:
    """The steps after which a run on one node saves, whose steps and saves take so long."""
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    due = Due(TrainConfig.model_validate(fields), Group(device=torch.device("cpu")))
    due.begin(0)
    found, stalled = list[int](), 0.0
    for step in range(1, steps + 1):
        clock.now += step_s + (save_s if found and found[-1] == step - 1 else 0.0)
        stalled = save_s * len(found)
        due.follow(step, stalled, carried)
        if due.at(step):
            due.saves += 1
            found.append(step)
    return found


def test_the_first_state_measures_and_the_next_ones_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(monkeypatch, 1.0, 0.5, 700, failure_rate=MONTH_S / 10_000) == [10, 110, 210, 310, 410, 510, 610]
    assert round(best_interval(0.5, 10_000)) == 100


@pytest.mark.parametrize(("save_s", "rate", "seconds"), [
    (1e-3, 0.08, LEAST_S), (100.0, 1e-6, MOST_S), (0.05, 0.08, 0.05 / CHEAP), (0.5, 1e9, LEAST_S)])
def test_an_interval_has_bounds(monkeypatch: pytest.MonkeyPatch, save_s: float, rate: float, seconds: float) -> None:
    first, second = states(monkeypatch, 0.5, save_s, 5000, failure_rate=rate)[:2]
    assert first == FIRST
    assert second - first == round(seconds / 0.5)


def test_a_store_that_is_written_for_long_is_written_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of 81 s on its way, which training does not feel, comes each 810 s; or as often as failures say."""
    assert states(monkeypatch, 1.0, 0.05, 1700, carried=81.0) == [10, 820, 1630]
    often = states(monkeypatch, 1.0, 0.5, 300, carried=81.0, failure_rate=MONTH_S / 10_000)
    assert often == [10, 110, 210]


def test_slow_steps_leave_the_watch_batches_to_go_back_over(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = WatchConfig(before=15)
    assert states(monkeypatch, 600.0, 1.0, 50, watch=watch) == [16, 32, 48]
    assert states(monkeypatch, 600.0, 1.0, 50, save_every=20) == [20, 40]


def test_states_to_keep_are_due_at_their_multiples_whatever_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(monkeypatch, 1.0, 0.5, 400, failure_rate=MONTH_S / 10_000, keep_every=150) == [
        10, 110, 150, 250, 300, 400]  # the interval of 100 begins anew
    assert states(monkeypatch, 1.0, 0.5, 40, save_every=15, keep_every=10) == [10, 15, 20, 30, 40]
