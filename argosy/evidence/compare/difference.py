"""Tests of a difference between two checkpoints: paired by question or document, or by two standard errors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.core.statistics.intervals import quantile, t_quantile
from argosy.core.statistics.paired import Interval, compare_items, paired_ratio_test
from argosy.evidence.results.rows.values import Value

FLIPS, FEW_DRAWN, MORE_DRAWS = "sign flips", 0.002, 40_000
MANY = 10_000  # degrees of freedom of an error that is taken as known


@dataclass(frozen=True)
class Tested:
    """A difference: its interval of 95 %, its standard error with degrees of freedom, its p-value, and of how many."""

    difference: Interval
    stderr: float
    degrees: int
    p_value: float | None
    n: int = 0
    least: float = 0.0
    """the smallest p-value that the test can reach with so many independent items, however different the two are"""
    items: int = 0
    """number of items that the `n` questions are about; this and the next two are known of shares of right answers"""
    gained: int = 0
    """number of items that the second answers more often right"""
    lost: int = 0
    """number of items that it answers less often right"""


def paired(pairs: Sequence[tuple[Value, Value]], share: bool) -> Tested:
    """Test shares of right answers item by item (argosy.core.statistics.paired: compare_items), others, such as
    probabilities, and losses over lengths, by the t test of a ratio, with independent units as its observations."""
    if share and all(a.weight == b.weight == 1.0 and 0 <= a.value <= 1 and 0 <= b.value <= 1 for a, b in pairs):
        return _shares(pairs)
    units: dict[str, list[float]] = {}
    for a, b in pairs:
        sums = units.setdefault(a.unit, [0.0, 0.0, 0.0])
        for place, value in enumerate((a.value, b.value, (a.weight + b.weight) / 2)):
            sums[place] += value
    before, after, below = zip(*units.values(), strict=True)
    if len(units) < 2:
        value = (math.fsum(after) - math.fsum(before)) / math.fsum(below)
        return Tested(Interval(value, -math.inf, math.inf), math.inf, 1, 1.0, len(pairs))
    found, p_value = paired_ratio_test(after, before, below)
    degrees = max(1, math.floor(math.fsum(below) ** 2 / math.fsum(b * b for b in below) + 1e-9) - 1)
    return Tested(found, (found.high - found.low) / 2 / t_quantile(0.95, degrees), degrees, p_value, len(pairs))


def _shares(pairs: Sequence[tuple[Value, Value]]) -> Tested:
    """Test answers, of which those to one item are related: the difference is that of the metric, over answers."""
    before, after = ([pair[side].value for pair in pairs] for side in (0, 1))
    units, gains = [a.unit for a, _ in pairs], dict.fromkeys((a.item for a, _ in pairs), 0.0)
    for a, b in pairs:
        gains[a.item] += b.value - a.value
    found = compare_items(before, after, units)
    if found.test == FLIPS and found.p_value < FEW_DRAWN:  # the draws are the limit, and a correction needs more
        found = compare_items(before, after, units, draws=MORE_DRAWS)
    return Tested(Interval(found.value, found.low, found.high), found.stderr if found.clusters > 1 else math.inf,
                  max(1, found.clusters - 1), found.p_value, len(pairs), _least(found.clusters, found.test),
                  len(gains), sum(gain > 0 for gain in gains.values()), sum(gain < 0 for gain in gains.values()))


def _least(clusters: int, test: str) -> float:
    """The smallest p-value of `compare_items`: all differ the same way. Sign flips of many are drawn, and the observed
    one counts."""
    return max(2.0 ** (1 - clusters), 1 / (MORE_DRAWS + 1) if test == FLIPS and clusters > 12 else 0.0)


def independent(difference: float, error: float) -> Tested:
    """Test two values by the standard error of their difference, taken as known."""
    half = quantile(0.95) * error
    p_value = math.erfc(abs(difference) / error / math.sqrt(2)) if error > 0 else float(difference == 0)
    return Tested(Interval(difference, difference - half, difference + half), error, MANY, p_value)


def possible(found: Tested) -> Tested:
    """Cut the interval of two shares: their difference is at most 1 either way, whatever the method says."""
    low, high = (min(1.0, max(-1.0, end)) for end in (found.difference.low, found.difference.high))
    return replace(found, difference=Interval(found.difference.value, low, high))


def distance(found: Tested, values: tuple[float, float], errors: Sequence[float]) -> Tested:
    """Turn the test of two values into that of their distances from 0.

    On one side of 0 it is that difference, or its reverse. On two sides it is tested with the sum of the two standard
    errors, which is the largest that it can have, however related the two are; without these it cannot be tested."""
    before, after = values
    if before * after >= 0:
        d = found.difference
        return found if before + after >= 0 else replace(found, difference=Interval(-d.value, -d.high, -d.low))
    moved = abs(after) - abs(before)
    if not all(map(math.isfinite, errors)):
        return untested(0.0, moved)
    return replace(independent(moved, math.fsum(errors)), n=found.n)


def untested(before: float, after: float) -> Tested:
    """Give a difference without a test."""
    return Tested(Interval(after - before, math.nan, math.nan), math.nan, 1, None)
