"""Groups of documents: equal keys in their order, sets that are joined, likeness of sketches."""

import numpy as np
from numba import njit

from argosy.corpus.cleaning.kernels.dedup.hashing import sort


@njit(cache=True)
def restore(keys, order):  # type: ignore[no-untyped-def]
    """Put places of equal keys in ascending order, in an order that sorts the keys but is not stable."""
    begin = 0
    for at in range(1, len(order) + 1):
        if at == len(order) or keys[order[at]] != keys[order[begin]]:
            if at - begin > 1:
                sort(order[begin:at])
            begin = at


@njit(cache=True)
def root(parents, one):  # type: ignore[no-untyped-def]
    """Find the least document of the set of `one`, and shorten the way to it (union-find, Tarjan 1975)."""
    while parents[one] != one:
        parents[one] = parents[parents[one]]
        one = parents[one]
    return one


@njit(cache=True)
def join(parents, one, two):  # type: ignore[no-untyped-def]
    """Make one set of two: its root is its least document, whatever the order of joins."""
    one, two = root(parents, one), root(parents, two)
    if one < two:
        parents[two] = one
    else:
        parents[one] = two


@njit(cache=True)
def join_groups(parents, documents, starts):  # type: ignore[no-untyped-def]
    """Make one set of each group of documents, `documents[starts[i] : starts[i + 1]]`."""
    for group in range(len(starts) - 1):
        for at in range(starts[group] + 1, starts[group + 1]):
            join(parents, documents[starts[group]], documents[at])


@njit(cache=True)
def jaccard(values, one, one_end, two, two_end, most):  # type: ignore[no-untyped-def]
    """Estimate the Jaccard index of two sets by their least hashes, in order, of which at most `most` are looked at
    (bottom-k sketch, Broder 1997); of two sets with fewer hashes all, so that it is exact."""
    both, seen = 0, 0
    if one_end - one < most and two_end - two < most:
        most = 2 * most
    while seen < most and one < one_end and two < two_end:
        a, b = values[one], values[two]
        both += a == b
        one += a <= b
        two += b <= a
        seen += 1
    seen = min(most, seen + (one_end - one) + (two_end - two))
    return both / seen


@njit(cache=True)
def join_alike(parents, documents, starts, places, values, offsets, most, least, compared):  # type: ignore[no-untyped-def]
    """Join documents of a group that are alike: each is compared with at most `compared` before it, of other sets.

    places: number of each document's sketch, `values[offsets[i] : offsets[i + 1]]`. least: the Jaccard index."""
    for group in range(len(starts) - 1):
        for at in range(starts[group] + 1, starts[group + 1]):
            looks = 0
            for other in range(starts[group], at):
                if root(parents, documents[at]) == root(parents, documents[other]):
                    continue
                one, two = places[at], places[other]
                if jaccard(values, offsets[one], offsets[one + 1], offsets[two], offsets[two + 1], most) >= least:
                    join(parents, documents[at], documents[other])
                looks += 1
                if looks == compared:
                    break


@njit(cache=True)
def begin(parents):  # type: ignore[no-untyped-def]
    """Make each document a set of its own."""
    for one in range(len(parents)):
        parents[one] = one


@njit(cache=True)
def members(parents):  # type: ignore[no-untyped-def]
    """Return the documents of sets that have more than one, ascending, and the root of each."""
    several = np.zeros(len(parents), np.bool_)
    for one in range(len(parents)):
        parents[one] = root(parents, one)
        if parents[one] != one:
            several[one] = several[parents[one]] = True
    found = np.flatnonzero(several)
    return found, parents[found]


@njit(cache=True)
def gather(values, begins, counts, out, at):  # type: ignore[no-untyped-def]
    """Copy pieces of `values` to `out` from `at` on."""
    for piece in range(len(begins)):
        out[at : at + counts[piece]] = values[begins[piece] : begins[piece] + counts[piece]]
        at += counts[piece]
