"""Words of documents that are among some few: how many different ones each document has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from argosy.corpus.cleaning.kernels.pieces import Words, words

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

def hashes_of(listed: Sequence[str]) -> "npt.NDArray[np.uint64]":
    """Return the hashes of words, sorted, (words,), as `Words.hashes` has them."""
    text = " ".join(listed)
    found = words(np.frombuffer(text.encode("utf-32-le"), np.uint32), np.array([0, len(text)], np.int64)).hashes
    return np.unique(found)


def distinct(found: Words, listed: "npt.NDArray[np.uint64]") -> "Integers":
    """Count how many of some words each document has: (documents,), int64. `listed`: their hashes, sorted."""
    counts: Integers = _distinct(found.hashes, found.first, listed)
    return counts


@njit(cache=True)
def _distinct(hashes, first, listed):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(first) - 1, np.int64)
    # A filter by the low bits spares nearly all words the search.
    maybe = np.zeros(4096, np.bool_)
    for value in listed:
        maybe[value & np.uint64(4095)] = True
    there = np.zeros(len(listed), np.bool_)
    for document in range(len(first) - 1):
        there[:] = False
        for word in range(first[document], first[document + 1]):
            value = hashes[word]
            if maybe[value & np.uint64(4095)]:
                at = np.searchsorted(listed, value)
                if at < len(listed) and listed[at] == value and not there[at]:
                    there[at] = True
                    counts[document] += 1
    return counts
