"""Estimates that are no plain means: ratios of sums, exponentials, areas under the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from argosy.statistics.intervals import Estimate, mean


def ratio(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> Estimate:
    """scale * sum(above) / sum(below), with the standard error over its pairs by the delta method; NaN for one pair.

    Raises:
        ValueError: there are no pairs.
    """
    value = math.fsum(above) / math.fsum(below)
    each = math.fsum(below) / len(below)
    spread = mean([(a - value * b) / each for a, b in zip(above, below, strict=True)])
    return Estimate(value * scale, spread.stderr * scale, len(above))


def exponential(estimate: Estimate) -> Estimate:
    """exp of an estimate, with the error by the delta method."""
    value = math.exp(min(estimate.value, 700.0))
    return Estimate(value, value * estimate.stderr, estimate.n)


def auc(high: Sequence[float], low: Sequence[float]) -> Estimate:
    """Probability that a value of `high` is above one of `low` (ties count half), with DeLong's standard error (1988).

    Raises:
        ValueError: one of them is empty.
    """
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
