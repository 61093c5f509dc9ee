"""The loop's meetings with other processes."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from argosy.core.step import contract
from argosy.core.step.contract import Progress, StepContext, Watched
from argosy.core.store.step_files import WATCH
from argosy.core.tracking.tracker import Tracker
from argosy.model.train.config import TrainConfig
from argosy.model.train.decisions import Turn
from argosy.model.train.loop import Loop
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
