"""Does a metric rise with training? Kendall's rank correlation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_EXACT = 60  # points up to which the p-value is counted out, where there are no ties


@dataclass(frozen=True)
class Trend:
    """Kendall's tau-b (-1 to 1) and its two-sided p-value; tau is 0 where one of both never changes."""

    tau: float
    p_value: float
    n: int


def kendall(x: Sequence[float], y: Sequence[float]) -> Trend:
    """Kendall's tau-b (1945) of paired values, such as tokens and a metric.

    The p-value is exact without ties (up to 60 points), else of the normal distribution with the variance for ties
    (Kendall, "Rank Correlation Methods", 1970, as in scipy.stats.kendalltau).

    Raises:
        ValueError: lengths differ.
    """
    pairs = list(zip(x, y, strict=True))
    n = len(pairs)
    score = sum(_sign(a[0] - b[0]) * _sign(a[1] - b[1]) for i, a in enumerate(pairs) for b in pairs[:i])
    ties = [list(Counter(values).values()) for values in (x, y)]
    whole = n * (n - 1) // 2
    free = [whole - sum(t * (t - 1) // 2 for t in tied) for tied in ties]
    if not all(free):
        return Trend(0.0, 1.0, n)
    tau = score / math.sqrt(free[0] * free[1])
    if n <= _EXACT and max(map(max, ties)) == 1:
        return Trend(tau, _exact(n, (whole - abs(score)) // 2), n)
    return Trend(tau, math.erfc(abs(score) / math.sqrt(2 * _variance(n, ties))), n)


def _exact(n: int, discordant: int) -> float:
    """P of at most so many inversions in a random order, on both sides."""
    ways = [1]  # orders by number of inversions
    for size in range(2, n + 1):
        longer = [0] * (len(ways) + size - 1)
        for inversions, count in enumerate(ways):
            for more in range(size):
                longer[inversions + more] += count
        ways = longer[: discordant + 1]
    return min(1.0, float(2 * sum(ways[: discordant + 1]) / math.factorial(n)))


def _variance(n: int, ties: Sequence[Sequence[int]]) -> float:
    plain = n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for tied in ties for t in tied)
    triples = math.prod(sum(t * (t - 1) * (t - 2) for t in tied) for tied in ties)
    doubles = math.prod(sum(t * (t - 1) for t in tied) for tied in ties)
    found = plain / 18 + doubles / (2 * n * (n - 1))
    return found + (triples / (9 * n * (n - 1) * (n - 2)) if n > 2 else 0.0)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
