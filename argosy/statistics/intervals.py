"""A mean with its standard error, and intervals for means and proportions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error (NaN when it is unknown) and how many observations it is made of."""

    value: float
    stderr: float
    n: int


def mean(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Estimate:
    """The mean and its standard error; `clusters` names the item that each value belongs to.

    Several questions made of one item are not independent: with clusters, the error is the cluster-robust one
    (Miller, "Adding Error Bars to Evals", 2024, eq. 4) with the G/(G-1) correction, which is the ordinary one
    (sample standard deviation / sqrt(n), as in lm-eval) when each cluster has one value.

    Raises:
        ValueError: there are no values, or `clusters` has another length.
    """
    if not values:
        raise ValueError("a mean of no values")
    n = len(values)
    average = math.fsum(values) / n
    sums: dict[Hashable, float] = {}
    for value, cluster in zip(values, clusters if clusters is not None else range(n), strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - average
    groups = len(sums)
    if groups < 2:
        return Estimate(average, math.nan, n)
    variance = math.fsum(s * s for s in sums.values()) / n**2 * groups / (groups - 1)
    return Estimate(average, math.sqrt(variance), n)


def quantile(level: float) -> float:
    """The z of a two-sided interval: 1.96 for 0.95."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; allowed: between 0 and 1")
    return NormalDist().inv_cdf(0.5 + level / 2)


def normal_interval(value: float, stderr: float, level: float = 0.95) -> tuple[float, float]:
    """value plus and minus z standard errors."""
    half = quantile(level) * stderr
    return value - half, value + half


def wilson(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927): right also near 0 and 1 and for few items.

    Raises:
        ValueError: n is not positive or successes is not within 0..n.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}; allowed: 0 <= successes <= n, n > 0")
    z = quantile(level)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def share_interval(value: float, stderr: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share that is known by its (clustered) standard error and its number of answers.

    n is divided by the design effect (Dean and Pagano, 2015), which the error tells; where it does not, it is n.
    """
    spread = value * (1 - value)
    effective = min(float(n), spread / stderr**2 + 1) if stderr > 0 and spread > 0 else float(n)
    return wilson(value * effective, effective, level)


def proportion(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> tuple[float, float]:
    """Wilson's interval of a share with related values: n is divided by the design effect (Dean and Pagano, 2015).

    Values that agree within clusters count as few, but as no fewer than there are clusters where all are equal. With
    no clusters it is Wilson's own.

    Raises:
        ValueError: there are no values, or one is not within 0..1.
    """
    found = mean(values, clusters)
    groups = len(set(clusters)) if clusters is not None else found.n
    if groups == found.n or found.stderr == 0:
        return wilson(found.value * groups, groups, level)
    return share_interval(found.value, found.stderr, found.n, level)
