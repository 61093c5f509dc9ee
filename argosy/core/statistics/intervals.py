"""Means, ratios and areas under the ROC curve with standard errors; intervals by formula and by resampled clusters.

A difference of right and wrong answers has three values. Which items are drawn then does not matter, only how many of
each value: a multinomial (bootstrap) or binomial (sign flips) draw has the distribution of drawing item by item."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


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
    (sample standard deviation / sqrt(n), as in lm-eval) when each cluster has one value. Raises ValueError: there
    are no values, or `clusters` has another length."""
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


def ratio(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> Estimate:
    """Compute scale * sum(above) / sum(below), with the standard error over its pairs by the delta method (NaN for 1).
    Raises ValueError: there are no pairs."""
    value = math.fsum(above) / math.fsum(below)
    each = math.fsum(below) / len(below)
    spread = mean([(a - value * b) / each for a, b in zip(above, below, strict=True)])
    return Estimate(value * scale, spread.stderr * scale, len(above))


def exponential(estimate: Estimate) -> Estimate:
    """Compute exp of an estimate, with the error by the delta method."""
    value = math.exp(min(estimate.value, 700.0))
    return Estimate(value, value * estimate.stderr, estimate.n)


def auc(high: Sequence[float], low: Sequence[float]) -> Estimate:
    """Probability that a value of `high` is above one of `low` (ties count half), with DeLong's standard error (1988).
    Raises ValueError: one of them is empty."""
    if not high or not low:
        raise ValueError("an AUC of no values")
    a, b = np.asarray(high, dtype=float), np.asarray(low, dtype=float)
    ordered_b, ordered_a = np.sort(b), np.sort(a)
    above = (np.searchsorted(ordered_b, a, "left") + np.searchsorted(ordered_b, a, "right")) / 2 / len(b)
    below = 1 - (np.searchsorted(ordered_a, b, "left") + np.searchsorted(ordered_a, b, "right")) / 2 / len(a)
    value = float(above.mean())
    if min(len(a), len(b)) < 2:
        return Estimate(value, math.nan, len(a) + len(b))
    return Estimate(value, float(np.sqrt(above.var(ddof=1) / len(a) + below.var(ddof=1) / len(b))), len(a) + len(b))


def quantile(level: float) -> float:
    """The z of a two-sided interval: 1.96 for 0.95."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; allowed: between 0 and 1")
    return NormalDist().inv_cdf(0.5 + level / 2)


@lru_cache(maxsize=1024)
def t_quantile(level: float, degrees: int) -> float:
    """The t of a two-sided interval: 2.262 for 0.95 and 9 degrees of freedom."""
    from scipy.special import stdtrit

    if not 0 < level < 1 or degrees < 1:
        raise ValueError(f"level is {level} and degrees {degrees}; allowed: between 0 and 1, and 1 or more")
    return float(stdtrit(degrees, 0.5 + level / 2))


def t_two_sided(t: float, degrees: int) -> float:
    """P(|T| >= |t|) of Student's distribution. Raises ValueError: fewer than one degree of freedom."""
    from scipy.special import stdtr

    if degrees < 1:
        raise ValueError(f"degrees is {degrees}; allowed: 1 or more")
    return float(2 * stdtr(degrees, -abs(t)))


def pooled_spread(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Standard deviation within groups, pooled over them, and its degrees of freedom; 0 where no group has two."""
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(float(np.var(group)) * len(group) for group in groups)
    return (math.sqrt(squares / degrees), degrees) if degrees else (0.0, 0)


def normal_interval(value: float, stderr: float, level: float = 0.95) -> tuple[float, float]:
    """value plus and minus z standard errors."""
    half = quantile(level) * stderr
    return value - half, value + half


def wilson(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927): right also near 0 and 1 and for few items. Raises ValueError: n
    is not positive or successes is not within 0..n."""
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}; allowed: 0 <= successes <= n, n > 0")
    z = quantile(level)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def share_interval(value: float, stderr: float, n: float, clusters: float = 0) -> tuple[float, float]:
    """Wilson's interval of a share that is known by its (clustered) standard error and its number of answers.

    n is divided by the design effect, which the error tells (Dean and Pagano, "Evaluating Confidence Interval Methods
    for Binomial Proportions in Clustered Surveys", 2015). An error of 0 does not: n is the number of clusters then,
    where it is known."""
    spread = value * (1 - value)
    effective = spread / stderr**2 + 1 if stderr > 0 and spread > 0 else float(clusters or n)
    effective = min(float(n), effective)
    return wilson(value * effective, effective)


def balanced_weights(groups: Sequence[Hashable]) -> list[float]:
    """A weight for each value, of mean 1, with which each of the `groups` has the same share (post-stratification).

    Groups that have one size get weights of 1 and change nothing. A test or interval of the weighted values is one
    of the groups' mean; it holds what differs between groups for noise, so it is too wide rather than too narrow."""
    sizes = Counter(groups)
    return [len(groups) / len(sizes) / sizes[group] for group in groups]


Floats = NDArray[np.float64]
_CHUNK = 4_000_000  # drawn numbers held at once
_EXACT = 12  # clusters up to which all sign flips are counted
_FEW = 64  # different values up to which their numbers are drawn instead of items


def totals(values: Floats, clusters: Sequence[Hashable] | None) -> tuple[Floats, Floats]:
    """Sum and number of the values of each cluster, clusters in the order in which they come first."""
    if clusters is None:
        return values, np.ones(len(values))
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} values and {len(clusters)} clusters; give the cluster of each value")
    places: dict[Hashable, int] = {}
    index = [places.setdefault(cluster, len(places)) for cluster in clusters]
    return np.bincount(index, values).astype(np.float64), np.bincount(index).astype(np.float64)


def flipped_at_least(sums: Floats, seed: int, draws: int) -> float:
    """The p-value of a sign-flip test: how often flipped sums are, together, at least as far from 0 as these.

    All 2^clusters flips are counted where they are few; else `draws` ones, the observed one counted too (never 0)."""
    sizes, counts = np.unique(np.abs(sums[sums != 0]).round(12), return_counts=True)
    observed = abs(float(sums.sum())) * (1 - 1e-9) - 1e-12
    if counts.sum() <= _EXACT:
        every = np.zeros(1)
        for size in np.repeat(sizes, counts):
            every = np.concatenate([every + size, every - size])
        return float(np.mean(np.abs(every) >= observed))
    generator = np.random.default_rng(seed)
    extreme = 0
    for size in chunks(draws, len(sizes)):
        ups = generator.binomial(counts, 0.5, (size, len(sizes))) if len(sizes) < counts.sum() else None
        signs = 2 * generator.integers(0, 2, (size, len(sizes)), dtype=np.int8) - 1 if ups is None else 2 * ups - counts
        extreme += int(np.sum(np.abs(signs @ sizes) >= observed))
    return (extreme + 1) / (draws + 1)


def bootstrapped(sums: Floats, sizes: Floats, seed: int, draws: int) -> Floats:
    """`draws` means, each of as many clusters as there are, drawn with replacement: sum of sums over sum of sizes."""
    generator = np.random.default_rng(seed)
    kinds, counts = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    n = len(sums)
    if len(counts) <= min(_FEW, n / 4):
        drawn = generator.multinomial(n, counts / n, size=draws)
        means: Floats = (drawn @ kinds[0]) / (drawn @ kinds[1])
        return means
    found = []
    for size in chunks(draws, n):
        chosen = generator.integers(0, n, (size, n))
        found.append(sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1))
    return np.concatenate(found)


def chunks(draws: int, width: int) -> list[int]:
    """`draws` in parts, each of which needs little memory."""
    size = max(1, _CHUNK // max(1, width))
    return [min(size, draws - start) for start in range(0, draws, size)]


def platt(values: Floats, labels: Floats) -> tuple[float, float]:
    """Return slope and offset of the logit in `values` that are likeliest for `labels` of 0 and 1, all (scores,),
    against targets that are never quite certain (Platt 1999)."""
    from scipy.optimize import minimize
    from scipy.special import expit

    ahead, behind = float((labels > 0).sum()), float((labels <= 0).sum())
    targets = np.where(labels > 0, (ahead + 1) / (ahead + 2), 1 / (behind + 2))
    inputs = np.stack([values, np.ones_like(values)])

    def loss(line: Floats) -> tuple[float, Floats]:
        logits = line @ inputs
        lost = (np.logaddexp(0, logits) - targets * logits).mean()
        return float(lost), inputs @ (expit(logits) - targets) / len(values)

    found = minimize(loss, [0.0, np.log((ahead + 1) / (behind + 1))], jac=True, method="BFGS", options={"gtol": 1e-9})
    return float(found.x[0]), float(found.x[1])
