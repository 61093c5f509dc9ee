"""Differences of two checkpoints on the same items: intervals and tests.

Every function takes one value an item (right = 1, wrong = 0, or any score), in the same order for both; several
questions of one item are averaged first. Results are functions of the data and the seed alone."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.core.statistics import intervals

FEW = 30  # clusters (or items that are not related) below which percentiles of a bootstrap are too near


@dataclass(frozen=True)
class Interval:
    """A difference (first minus second) and its confidence interval."""

    value: float
    low: float
    high: float


def paired_ratio_test(first: Sequence[float], second: Sequence[float], below: Sequence[float],
                      level: float = 0.95) -> tuple[Interval, float]:
    """(sum of first - sum of second) / sum of below, over items: its t interval, and the p-value of it being 0.

    For losses of documents, with the documents' lengths below: long documents count more, and are the unit whole.
    The error is the jackknife's, with degrees of freedom by Kish's effective number of items (1965), which holds the
    level for few items of uneven lengths; of equal lengths it is the paired t test. Unlike a sign-flip test, which
    cannot go below 2 / 2^items, it can tell with a handful of documents. Raises ValueError: lengths differ, there
    are fewer than two items, or a value of `below` is not positive."""
    a, b = _columns(first, second)
    _, sizes = _columns(first, below)
    if len(a) < 2 or not (sizes > 0).all():
        raise ValueError(f"a ratio of {len(a)} items; allowed: 2 or more, over lengths that are all positive")
    ratio, error, degrees = _ratio(a - b, sizes)
    half = intervals.t_quantile(level, degrees) * error
    alike = 1.0 if ratio == 0 else 2.0 ** (1 - len(a))  # all by one amount: no error to estimate, so signs alone count
    p_value = intervals.t_two_sided(ratio / error, degrees) if error > 0 else alike
    return Interval(ratio, ratio - half, ratio + half), p_value


def pooled_test(difference: float, spread: float, degrees: int, sizes: tuple[int, int]) -> tuple[float, float]:
    """Standard error and p-value of a difference of two means, by a t test with the `spread` of one observation that is
    known with so many degrees of freedom. `sizes`: observations of each mean."""
    error = spread * math.sqrt(1 / sizes[0] + 1 / sizes[1])
    return error, intervals.t_two_sided(difference / error, degrees) if error > 0 else float(difference == 0)


def _interval(sums: intervals.Floats, sizes: intervals.Floats, level: float, seed: int, draws: int) -> Interval:
    """Compute the mean over clusters with its percentile bootstrap; of fewer than FEW with the t interval (of
    `paired_ratio_test`), whose coverage holds, and of one with no interval: everything is in it."""
    if len(sums) < 2:
        return Interval(float(sums[0] / sizes[0]), -math.inf, math.inf)
    if len(sums) < FEW:
        ratio, error, degrees = _ratio(sums, sizes)
        half = intervals.t_quantile(level, degrees) * error
        return Interval(ratio, ratio - half, ratio + half)
    means = intervals.bootstrapped(sums, sizes, seed, draws)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(sums.sum() / sizes.sum()), float(low), float(high))


def _ratio(above: intervals.Floats, below: intervals.Floats) -> tuple[float, float, int]:
    """Sum over sum, with the jackknife's error and its degrees of freedom."""
    n, ratio = len(above), float(above.sum() / below.sum())
    without = (above - ratio * below) / (below.sum() - below)  # what leaving one out changes
    error = math.sqrt((n - 1) / n * float((without**2).sum()))
    effective = float(below.sum() ** 2 / (below**2).sum())
    return ratio, error, max(1, math.floor(effective + 1e-9) - 1)


def _columns(first: Sequence[float], second: Sequence[float]) -> tuple[intervals.Floats, intervals.Floats]:
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"paired values have the shapes {a.shape} and {b.shape}; give one value an item for both")
    return a, b


DRAWS = 4000


@dataclass(frozen=True)
class Paired:
    """Second minus first over the same items."""

    value: float
    low: float
    """interval, with `high`: the percentile bootstrap's, over clusters where there are any; of fewer than 30 the t
    interval, of one -inf to inf"""
    high: float
    stderr: float
    """standard error of the difference, clustered, as if one more item (cluster) had changed (Agresti and Min, 2005):
    some items that all stayed the same do not say that none ever changes. Equivalence rests on it."""
    p_value: float
    """two-sided; of McNemar's exact test or of sign flips, as `test` says"""
    test: str
    clusters: int
    """number of groups of related items (the number of items where none are related)"""


def compare_items(first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable] | None = None, *,
                  level: float = 0.95, seed: int = 0, draws: int = DRAWS) -> Paired:
    """Compare two checkpoints item by item.

    McNemar's exact test (1947) where answers are right or wrong and no items are related: the items on which they
    differ go either way with probability 1/2. Else signs are flipped by cluster (Good, "Permutation, Parametric and
    Bootstrap Tests", 2005), since related items err together. `first`, `second`: a value an item (right 1, wrong 0, or
    a share between), in one order. `clusters`: of each item, what related items share; None: none are related. Raises
    ValueError: lengths differ or are zero."""
    from scipy.special import bdtr

    a, b = _columns(first, second)
    groups = len(set(clusters)) if clusters is not None else len(a)
    own = clusters if groups < len(a) else None
    sums, sizes = intervals.totals(b - a, own)
    if binary := own is None and bool(np.isin([a, b], (0.0, 1.0)).all()):
        up, down = int(np.sum(b > a)), int(np.sum(b < a))
        p_value = min(1.0, 2 * float(bdtr(min(up, down), up + down, 0.5)))
    else:
        p_value = intervals.flipped_at_least(sums, seed, draws)
    interval = _interval(sums, sizes, level, seed, draws)
    stderr = math.hypot(intervals.mean((b - a).tolist(), own).stderr, 1 / groups)
    return Paired(interval.value, interval.low, interval.high, stderr, p_value, "McNemar" if binary else "sign flips",
                  groups)
