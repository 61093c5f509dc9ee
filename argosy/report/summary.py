"""The report at a glance: a line for each stage's last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.contamination.verdict import summary
from argosy.report.checkpoints import Checkpoint
from argosy.report.comparison import Comparison, TaskComparison
from argosy.report.paired import HEADLINE, Change

MOST = 4  # benchmarks


@dataclass(frozen=True)
class Score:
    """A headline, whether it is the best, and how it changed from the stage before; `value` None: not asked."""

    value: float | None
    best: bool = False
    change: Change | None = None


@dataclass(frozen=True)
class Glance:
    """A checkpoint. forgotten, learnt: channels of held-out text, from the stage before; seen: verdict and words."""

    label: str
    scores: list[Score]
    forgotten: list[str]
    learnt: list[str]
    seen: tuple[str, str]


def glance(found: Comparison) -> tuple[list[str], list[Glance]]:
    """The benchmarks that there is room for, and the lines."""
    tasks = [task for task in found.tasks if task.standings][:MOST]
    return [task.task for task in tasks], [_line(found, c, tasks) for c in found.checkpoints.finals]


def _line(found: Comparison, c: Checkpoint, tasks: list[TaskComparison]) -> Glance:
    channels = {kind: [t.channel for t in found.texts if t.second == c.key and t.verdict == kind]
                for kind in ("forgotten", "learnt")}
    return Glance(c.label, list(_scores(c, tasks)), channels["forgotten"], channels["learnt"], summary(c.seen))


def _scores(c: Checkpoint, tasks: list[TaskComparison]) -> Iterator[Score]:
    for task in tasks:
        value = next((s.headline for s in task.standings if s.checkpoint == c.key), None)
        change = next((s for s in task.stages if s.second == c.key and s.variant == HEADLINE), None)
        yield Score(value, task.best == c.key, change)
