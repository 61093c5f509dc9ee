"""Held-out text before and after a stage: what was learnt, what was forgotten."""

from __future__ import annotations

import math
from dataclasses import dataclass

from argosy.report.checkpoints import Checkpoint
from argosy.statistics import Interval, normal_interval

PREFIX = "heldout/bpb/"


@dataclass(frozen=True)
class TextChange:
    """Bits a byte of one channel's held-out text, from `first` to `second`. Above zero: the model got worse.

    The interval takes the two losses as independent. They are of the same documents, so it is too wide, not too
    narrow.
    """

    first: str
    second: str
    channel: str
    before: float
    after: float
    interval: Interval

    @property
    def verdict(self) -> str:
        """`forgotten`, `learnt`, or `no difference` beyond the interval."""
        if not self.interval.excludes_zero:
            return "no difference"
        return "forgotten" if self.interval.value > 0 else "learnt"


def text_changes(first: Checkpoint, second: Checkpoint) -> list[TextChange]:
    """One for each channel that both were scored on."""
    found = []
    for name in sorted(first.metrics.keys() & second.metrics.keys()):
        known = name in first.stderr and name in second.stderr
        if not known or not name.startswith(PREFIX) or name == f"{PREFIX}all":
            continue
        before, after = first.metrics[name], second.metrics[name]
        low, high = normal_interval(after - before, math.hypot(first.stderr[name], second.stderr[name]))
        found.append(TextChange(first.key, second.key, name.removeprefix(PREFIX), before, after,
                                Interval(after - before, low, high)))
    return found
