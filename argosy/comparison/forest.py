"""Differences with their intervals as marks on a common scale; right of the line is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.comparison.contrast import Contrast

WIDTH, MIDDLE = 132, 66
WIDEST = 0.9  # quantile of interval ends that fits: one wide interval does not squeeze all others


@dataclass(frozen=True)
class Mark:
    """Where the difference and its interval stand; cut: whether the interval goes on beyond the left or right end."""

    at: float
    low: float
    high: float
    cut: tuple[bool, bool]


class Scale:
    """A scale for each unit, common to all differences of a page."""

    def __init__(self, contrasts: Sequence[Contrast]) -> None:
        ends: dict[str, list[float]] = {}
        for c in contrasts:
            if math.isfinite(c.difference.low + c.difference.high):
                ends.setdefault(key_of(c), []).append(max(abs(c.difference.low), abs(c.difference.high)))
        self._half = {key: sorted(each)[int(WIDEST * (len(each) - 1))] or 1.0 for key, each in ends.items()}

    def mark(self, c: Contrast) -> Mark | None:
        """None where there is no interval."""
        half = self._half.get(key_of(c))
        if half is None or not math.isfinite(c.difference.low + c.difference.high):
            return None
        turn = -1 if c.kind.better < 0 else 1
        low, high = sorted((turn * c.difference.low, turn * c.difference.high))
        at, low, high = (turn * c.difference.value / half, low / half, high / half)
        return Mark(_x(at), _x(low), _x(high), (low < -1, high > 1))


def key_of(c: Contrast) -> str:
    """What has one scale: shares together, and each unit of others."""
    return "%" if c.kind.share else c.kind.unit or f"{c.kind.family}/{c.name.rpartition('/')[2]}"


def _x(share: float) -> float:
    return round(MIDDLE + max(-1.0, min(1.0, share)) * (MIDDLE - 3), 1)
