"""Search of a batch for any of many phrases at once, without case, by a compiled scan.

Phrases are looked up by their first three characters (two, where they have no more), then compared; thousands of them
cost little more than one."""

from collections.abc import Sequence

import numpy as np
from numba import njit

from argosy.core.lazy import Integers, Points
from argosy.corpus.cleaning.kernels.characters import small_letters
from argosy.corpus.cleaning.kernels.types import BOOLS, INT, INTS, INTS32, POINTS, WORD32, parts

_BUCKETS = 1 << 16


@njit([(INT, INT, INT), (WORD32, WORD32, INT)], cache=True)
def _bucket(one, two, three):  # type: ignore[no-untyped-def]
    """Return the bucket of a phrase's first characters."""
    return ((one * 40503 + two) * 40503 + three) * 2654435761 >> 11 & 0xFFFF


@njit((INT,), cache=True)
def _alphanumeric(point: int) -> bool:
    """Tell whether a small code point is an ASCII letter, digit or underscore."""
    return 48 <= point <= 57 or 97 <= point <= 122 or point == 95


@njit((POINTS, INT, POINTS, POINTS, INT, INT), cache=True)
def _same(points, at, lower, letters, begin, end):  # type: ignore[no-untyped-def]
    """Tell whether a phrase stands at `at`."""
    for offset in range(end - begin):  # noqa: SIM110 (compiled)
        if lower[points[at + offset]] != letters[begin + offset]:
            return False
    return True


@njit((POINTS, INTS, POINTS, parts(POINTS, INTS, INTS, INTS32, BOOLS)), cache=True)
def _find(points, starts, lower, phrases):  # type: ignore[no-untyped-def]
    """Return where a phrase begins, and its number."""
    letters, offsets, order, first, bounded = phrases
    found = np.empty((1024, 2), np.int64)
    count = 0
    for document in range(len(starts) - 1):
        end = starts[document + 1]
        if end - starts[document] < 2:
            continue
        before, two, three = 0, lower[points[starts[document]]], lower[points[starts[document] + 1]]
        for at in range(starts[document], end - 1):
            one, two = two, three
            three = lower[points[at + 2]] if at + 2 < end else np.uint32(0)
            for size in range(2, 4):
                bucket = _bucket(one, two, three if size == 3 else 0)
                for place in range(first[bucket], first[bucket + 1]):
                    phrase = order[place]
                    if at + offsets[phrase + 1] - offsets[phrase] > end or (bounded[phrase] and _alphanumeric(before)):
                        continue
                    if min(offsets[phrase + 1] - offsets[phrase], 3) != size:
                        continue
                    if _same(points, at, lower, letters, offsets[phrase], offsets[phrase + 1]):
                        if count == len(found):
                            found = np.concatenate((found, np.empty_like(found)))
                        found[count, 0], found[count, 1] = at, phrase
                        count += 1
            before = one
    return found[:count]


class Phrases:
    """Phrases in the form that the scan takes.

    Args:
        phrases: of one character or more, those of one not bounded.
        bounded: of each, whether it must not follow an ASCII letter, digit or underscore."""

    def __init__(self, phrases: Sequence[str], bounded: Sequence[bool]) -> None:
        lower = small_letters()
        coded = [lower[np.frombuffer(phrase.encode("utf-32-le"), np.uint32)] for phrase in phrases]
        self._letters = np.concatenate([np.zeros(0, np.uint32), *coded])
        self._bounded = np.array(bounded, np.bool_)
        sizes = np.array([len(phrase) for phrase in coded], np.int64)
        self._offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self._single = {number: int(coded[number][0]) for number in np.flatnonzero(sizes == 1).tolist()}
        longer = np.flatnonzero(sizes > 1)
        heads = [[*map(int, coded[number][:3]), 0][:3] for number in longer]
        buckets = np.array([_bucket(*head) for head in heads], np.int64)
        order = np.argsort(buckets, kind="stable")
        self._order = longer[order]
        self._first = np.searchsorted(buckets[order], np.arange(_BUCKETS + 1)).astype(np.int32)

    def find(self, points: Points, starts: Integers) -> tuple[Integers, Integers]:
        """Return where phrases begin in `points` (as `Batch.points` and `Batch.starts`), in order, and the number of
        each phrase, both (found,); none of them crosses the end of a document."""
        places, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        if len(self._order):
            phrases = self._letters, self._offsets, self._order, self._first, self._bounded
            found = _find(points, starts, small_letters(), phrases)
            places, numbers = [found[:, 0]], [found[:, 1]]
        for number, point in self._single.items():
            places.append(np.flatnonzero(points == point))
            numbers.append(np.full(len(places[-1]), number))
        where, which = np.concatenate(places), np.concatenate(numbers)
        order = np.lexsort((which, where))
        return where[order], which[order]
