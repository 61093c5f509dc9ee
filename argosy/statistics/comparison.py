"""The one comparison of two checkpoints that the report, the nightly judgement and the gate make."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from argosy.statistics.intervals import mean
from argosy.statistics.paired import mcnemar, paired_bootstrap, paired_permutation

DRAWS = 4000


@dataclass(frozen=True)
class Paired:
    """Second minus first over the same items.

    Attributes:
        low, high: the percentile bootstrap's interval, over clusters where there are any; of fewer than 30 the t
            interval, of one -inf to inf.
        stderr: of the difference, clustered, as if one more item (cluster) had changed (Agresti and Min, 2005): some
            items that all stayed the same do not say that none ever changes. Equivalence rests on it.
        p_value: two-sided; of McNemar's exact test or of sign flips, as `test` says.
        gained, lost: items that the second answers more, or less, often right.
        clusters: how many groups of related items there are (as many as items where none are related).
    """

    value: float
    low: float
    high: float
    stderr: float
    p_value: float
    test: str
    items: int
    clusters: int
    gained: int
    lost: int


def compare_items(
    first: Sequence[float],
    second: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
) -> Paired:
    """Compare two checkpoints item by item.

    McNemar's exact test where answers are right or wrong and no items are related; else signs flipped by cluster
    (Good, "Permutation, Parametric and Bootstrap Tests", 2005), since related items err together.

    Args:
        first, second: a value an item (right 1, wrong 0, or a share between), in one order.
        clusters: of each item, what related items share; None: none are related.

    Raises:
        ValueError: lengths differ or are zero.
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    groups = len(set(clusters)) if clusters is not None else len(differences)
    own = clusters if groups < len(differences) else None
    binary = own is None and all(value in (0.0, 1.0) for value in (*first, *second))
    found = mcnemar(second, first) if binary else paired_permutation(second, first, seed, draws, own)
    interval = paired_bootstrap(second, first, level, seed, draws, own)
    stderr = math.hypot(mean(differences, own).stderr, 1 / groups)
    return Paired(
        value=found.value, low=interval.low, high=interval.high, stderr=stderr, p_value=found.p_value,
        test="McNemar" if binary else "sign flips", items=len(differences), clusters=groups,
        gained=sum(d > 0 for d in differences), lost=sum(d < 0 for d in differences),
    )  # fmt: skip
