"""Weights that make groups of unequal sizes count the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def balanced_weights(groups: Sequence[Hashable]) -> list[float]:
    """A weight for each value, of mean 1, with which each of the `groups` has the same share (post-stratification).

    Groups that have one size get weights of 1 and change nothing. A test or interval of the weighted values is one
    of the groups' mean; it holds what differs between groups for noise, so it is too wide rather than too narrow.
    """
    sizes = Counter(groups)
    return [len(groups) / len(sizes) / sizes[group] for group in groups]
