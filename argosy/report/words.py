"""Numbers and lists in a report's sentences."""

from __future__ import annotations

from collections.abc import Sequence

from argosy.statistics import Interval


def percent(value: float) -> str:
    """`61.2 %`."""
    return f"{100 * value:.1f} %"


def points(of: Interval, *, sign: bool = True) -> str:
    """`+4.2 points [1.0, 7.4]`: percentage points."""
    return f"{100 * of.value:{'+' if sign else ''}.1f} points [{100 * of.low:.1f}, {100 * of.high:.1f}]"


def reverse(of: Interval) -> Interval:
    """The same difference, seen from the other side."""
    return Interval(-of.value, -of.high, -of.low)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
