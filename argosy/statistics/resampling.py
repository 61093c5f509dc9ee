"""Drawing again: sign flips and bootstrap over clusters, exact or cheap where values are few different ones.

A difference of right and wrong answers has three values. Which items are drawn then does not matter, only how many of
each value: a multinomial (bootstrap) or binomial (sign flips) draw has the very distribution of drawing item by item.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

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

    All 2^clusters flips are counted where they are few; else of `draws` ones, the observed one counted too (never 0).
    """
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
