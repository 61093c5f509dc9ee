"""Differences of two checkpoints on the same items: intervals and tests.

Every function takes one value an item (right = 1, wrong = 0, or any score), in the same order for both; several
questions of one item are averaged first. Results are functions of the data and the seed alone."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.core.statistics import intervals

Clusters = Sequence[Hashable] | None
FEW = 30  # clusters (or items that are not related) below which percentiles of a bootstrap are too near


@dataclass(frozen=True)
class Interval:
    """A difference (first minus second) and its confidence interval."""

    value: float
    low: float
    high: float


def mcnemar(first: Sequence[bool | float], second: Sequence[bool | float]) -> float:
    """The two-sided p-value of McNemar's exact test (1947) of two lists of right (1) and wrong (0) answers.

    Only the items on which they differ count; under the null hypothesis each goes either way with probability 1/2.
    Raises ValueError: lengths differ, are zero, or a value is neither 0 nor 1."""
    from scipy.special import bdtr

    a, b = _columns(first, second)
    if not np.isin(np.concatenate([a, b]), (0.0, 1.0)).all():
        raise ValueError("McNemar's test is of answers that are right (1) or wrong (0); use paired_permutation")
    only_first, only_second = int(np.sum(a > b)), int(np.sum(b > a))
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), only_first + only_second, 0.5)))


def paired_permutation(first: Sequence[float], second: Sequence[float], seed: int = 0, draws: int = 10_000,
                       clusters: Clusters = None) -> float:
    """The p-value of a sign-flip permutation test of a mean difference; the observed one counts too (never 0).

    `clusters`: of each item, what related ones share (a passage, a fact in two languages): signs are flipped by
    cluster, since related items err together."""
    a, b = _columns(first, second)
    sums, _ = intervals.totals(a - b, clusters)
    return intervals.flipped_at_least(sums, seed, draws)


def paired_bootstrap(first: Sequence[float], second: Sequence[float], level: float = 0.95, seed: int = 0,
                     draws: int = 10_000, clusters: Clusters = None) -> Interval:
    """Percentile bootstrap of the mean difference, over items or over clusters of them; of fewer than 30 the t
    interval (of `paired_ratio_test`), whose coverage holds, and of one no interval: everything is in it."""
    a, b = _columns(first, second)
    return _bootstrap(a - b, level, seed, draws, clusters)


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


def difference_of_differences(first_plain: Sequence[float], second_plain: Sequence[float],
                              first_variant: Sequence[float], second_variant: Sequence[float], level: float = 0.95,
                              seed: int = 0, draws: int = 10_000, clusters: Clusters = None) -> Interval:
    """The lead of the first on the plain form minus its lead on a variant, paired by item, with its interval.

    Above zero: part of the lead is gone when the item is changed, as it is when items were memorised."""
    plain_a, plain_b = _columns(first_plain, second_plain)
    variant_a, variant_b = _columns(first_variant, second_variant)
    if len(plain_a) != len(variant_a):
        raise ValueError(f"{len(plain_a)} plain items and {len(variant_a)} of the variant; keep those that are in both")
    return _bootstrap((plain_a - plain_b) - (variant_a - variant_b), level, seed, draws, clusters)


def _bootstrap(values: intervals.Floats, level: float, seed: int, draws: int, clusters: Clusters = None) -> Interval:
    sums, sizes = intervals.totals(values, clusters)
    if len(sums) < 2:
        return Interval(float(values.mean()), -math.inf, math.inf)
    if len(sums) < FEW:
        ratio, error, degrees = _ratio(sums, sizes)
        half = intervals.t_quantile(level, degrees) * error
        return Interval(ratio, ratio - half, ratio + half)
    means = intervals.bootstrapped(sums, sizes, seed, draws)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


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

    McNemar's exact test where answers are right or wrong and no items are related; else signs flipped by cluster
    (Good, "Permutation, Parametric and Bootstrap Tests", 2005), since related items err together. `first`, `second`:
    a value an item (right 1, wrong 0, or a share between), in one order. `clusters`: of each item, what related
    items share; None: none are related. Raises ValueError: lengths differ or are zero."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    groups = len(set(clusters)) if clusters is not None else len(differences)
    own = clusters if groups < len(differences) else None
    binary = own is None and all(value in (0.0, 1.0) for value in (*first, *second))
    p_value = mcnemar(second, first) if binary else paired_permutation(second, first, seed, draws, own)
    interval = paired_bootstrap(second, first, level, seed, draws, own)
    stderr = math.hypot(intervals.mean(differences, own).stderr, 1 / groups)
    return Paired(interval.value, interval.low, interval.high, stderr, p_value, "McNemar" if binary else "sign flips",
                  groups)
