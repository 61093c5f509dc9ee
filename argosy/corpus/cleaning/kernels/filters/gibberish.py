"""Letters of documents and the probability of each after the one before; how often one sign stands."""

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Floats, Hashes, Integers, Points
from argosy.corpus.cleaning.kernels.characters import DIGIT, HAN_LETTER, SPACE, WORD, flags, small_letters
from argosy.corpus.cleaning.kernels.tables import place, slots
from argosy.corpus.cleaning.kernels.types import BOOLS, BYTES, FLOATS, HASHES, INT, INTS, POINTS

_UNDERSCORE, _SPACE = ord("_"), 32
_SHIFT = np.uint64(32)


def letters(points: Points, starts: Integers, han: Flags, most: int) -> tuple[Points, Integers]:
    """Return the small letters of documents, of Chinese ones the Han characters, one space where others stand between
    them: (letters,), uint32, and where each document begins, (documents + 1,), int64.

    Args:
        han: of each document, (documents,).
        most: characters of a document that are looked at, from its beginning."""
    return _letters(points, starts, han, flags(), small_letters(), most)


@njit((POINTS, INTS, BOOLS, BYTES, POINTS, INT), cache=True)
def _letters(points, starts, han, kinds, small, most):  # type: ignore[no-untyped-def]
    """Return the letters of documents, end to end, and where each begins."""
    out, size = np.empty(len(points), np.uint32), 0
    offsets = np.zeros(len(starts), np.int64)
    for document in range(len(starts) - 1):
        first, gap = size, False
        for at in range(starts[document], min(starts[document + 1], starts[document] + most)):
            kind = kinds[points[at]]
            if han[document]:
                keep = kind & HAN_LETTER != 0
            else:
                keep = kind & WORD != 0 and kind & DIGIT == 0 and points[at] != _UNDERSCORE
            if not keep:
                gap = True
                continue
            if gap and size > first:
                out[size] = _SPACE
                size += 1
            out[size], gap = small[points[at]], False
            size += 1
        offsets[document + 1] = size
    return out[:size].copy(), offsets


def same_shares(points: Points, starts: Integers, most: int) -> Floats:
    """Return the share of the most frequent character among the visible ones of the first `most`: (documents,)."""
    return _same_shares(points, starts, flags(), most)


@njit((POINTS, INTS, BYTES, INT), cache=True)
def _same_shares(points, starts, kinds, most):  # type: ignore[no-untyped-def]
    """Return the share of the most frequent sign of each document."""
    shares, times = np.zeros(len(starts) - 1), np.zeros(0x110000, np.int64)
    for document in range(len(starts) - 1):
        visible, largest = 0, 0
        end = min(starts[document + 1], starts[document] + most)
        for at in range(starts[document], end):
            if not kinds[points[at]] & SPACE:
                visible += 1
                times[points[at]] += 1
                largest = max(largest, times[points[at]])
        for at in range(starts[document], end):
            times[points[at]] = 0
        shares[document] = largest / max(visible, 1)
    return shares


def pairs(found: Points, offsets: Integers) -> Hashes:
    """Return neighbouring letters of a document as one number each, the first in its upper half: (pairs,), uint64."""
    both = (found[:-1].astype(np.uint64) << _SHIFT) | found[1:]
    inside = np.ones(len(both), np.bool_)
    ends = offsets[1:-1]
    inside[ends[(ends > 0) & (ends <= len(both))] - 1] = False
    return both[inside]


class Lookup:
    """Values of pairs of letters in a hash table.

    Args:
        keys: different pairs, as `pairs` gives them, (keys,), uint64.
        values: of each, (keys,), float64.
        others: value of any other pair that begins with a letter, (0x110000,), float64."""

    def __init__(self, keys: Hashes, values: Floats, others: Floats) -> None:
        self._table, self._values = _filled(keys, values)
        self._others = others

    def means(self, found: Points, offsets: Integers) -> Floats:
        """Return the mean value of the pairs of each document; NaN of those with no pair, (documents,)."""
        return _means(found, offsets, self._table, self._values, self._others)


@njit((HASHES, FLOATS), cache=True)
def _filled(keys, values):  # type: ignore[no-untyped-def]
    """Fill a hash table with the values of keys."""
    size = slots(len(keys))
    table, placed = np.zeros(size, np.uint64), np.zeros(size)
    for number in range(len(keys)):
        at = place(table, size, keys[number])
        table[at], placed[at] = keys[number], values[number]
    return table, placed


@njit((POINTS, INTS, HASHES, FLOATS, FLOATS), cache=True)
def _means(found, offsets, table, values, others):  # type: ignore[no-untyped-def]
    """Return the mean value of pairs of letters of each document; a pair that is not listed has its first letter's."""
    means = np.full(len(offsets) - 1, np.nan)
    for document in range(len(offsets) - 1):
        begin, end, total = offsets[document], offsets[document + 1], 0.0
        for at in range(begin, end - 1):
            key = (np.uint64(found[at]) << _SHIFT) | np.uint64(found[at + 1])
            where = place(table, len(table), key)
            total += values[where] if table[where] == key else others[found[at]]
        if end - begin > 1:
            means[document] = total / (end - begin - 1)
    return means
