"""Accuracy without a model's preference for places: averages over orders, and PriDe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from argosy.statistics.intervals import Estimate, mean

if TYPE_CHECKING:
    from evals.metrics import Answer


def averaged_is_right(group: Sequence[Answer]) -> bool:
    """Whether the right option is the likeliest after averaging its probability over the orders of an item."""
    totals: dict[int, float] = {}
    for a in group:
        for origin, weight in zip(a.question.origin, probabilities(a.scores), strict=True):
            totals[origin] = totals.get(origin, 0.0) + weight
    best = max(totals, key=lambda origin: totals[origin])
    return best == group[0].question.origin[group[0].question.gold]


def pride(groups: Sequence[Sequence[Answer]]) -> Estimate | None:
    """Accuracy with PriDe: of the items without calibration after dividing by the places' prior, of those with it by
    their cyclic orders themselves (Zheng et al. 2024, algorithm 1). None where no item has all its cyclic orders, or
    none of as many options as another.
    """
    priors = place_priors(groups)
    if any(len(group[0].scores) not in priors for group in groups):
        groups = [group for group in groups if len(group[0].scores) in priors]
    if not groups:
        return None
    right = [float(_debiased_is_right(group, priors[len(group[0].scores)])) for group in groups]
    return mean(right, [group[0].question.cluster or group[0].question.item for group in groups])


def place_priors(groups: Sequence[Sequence[Answer]]) -> dict[int, list[float]]:
    """Number of options -> log prior (nats) of each place: of each calibrated item the softmax of the log-probability
    of a place averaged over cyclic orders, averaged over items (their equation 7)."""
    found: dict[int, list[list[float]]] = {}
    for group in groups:
        n = len(group[0].scores)
        if len(group) == n and any(a.question.calibration for a in group):
            logs = [[math.log(p) for p in probabilities(a.scores)] for a in group]
            found.setdefault(n, []).append(probabilities([math.fsum(place) / n for place in zip(*logs, strict=True)]))
    return {n: [math.log(math.fsum(p) / len(each)) for p in zip(*each, strict=True)] for n, each in found.items()}


def _debiased_is_right(group: Sequence[Answer], prior: Sequence[float]) -> bool:
    if len(group) > 1:
        return averaged_is_right(group)
    [a] = group
    debiased = [score - log for score, log in zip(a.scores, prior, strict=True)]
    return debiased.index(max(debiased)) == a.question.gold


def probabilities(scores: Sequence[float]) -> list[float]:
    """Softmax, none of them 0 (a probability below 1e-30 counts as that)."""
    highest = max(scores)
    weights = [max(math.exp(score - highest), 1e-30) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
