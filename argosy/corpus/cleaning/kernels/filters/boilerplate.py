"""Lines of a batch for the removal of boilerplate: where they are, their hashes, and what stands alone in them."""

from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Bytes, Flags, Hashes, Integers, Points
from argosy.corpus.cleaning.kernels.characters import flags
from argosy.corpus.cleaning.kernels.types import BYTES, INT, INTS, POINTS, WORD32
from argosy.corpus.cleaning.kernels.words import hash_piece

_SEPARATORS = np.array([ord(character) for character in "|·•>»/,，、:：\t"], np.uint32)


class Lines(NamedTuple):
    """Lines of all documents, in order; no newline is in them.

    Attributes:
        starts, ends: in the batch's code points, (lines,).
        first: number of each document's first line, (documents + 1,).
        hashes: of the line without space around it, uint64; 0 in blocks of code.
        letters: how many letters and digits it has, a Han character counts as two.
        surplus: what a document has too much of, (documents,), uint8: 0 nothing, 1 newlines at its ends alone, 2 space
            at ends of lines or several empty lines in a row."""

    starts: Integers
    ends: Integers
    first: Integers
    hashes: Hashes
    letters: Integers
    surplus: Bytes


@njit((WORD32,), cache=True)
def _blank(point: int) -> bool:
    """Tell whether a code point is a space or tab within a line."""
    return point == 32 or point == 9 or point == 0x3000


@njit((POINTS, INT, INT), cache=True)
def _fence(points, begin, end):  # type: ignore[no-untyped-def]
    """Whether a line opens or closes a block of code: three backticks or tildes."""
    if end - begin < 3 or not (points[begin] == 96 or points[begin] == 126):
        return False
    return points[begin] == points[begin + 1] == points[begin + 2]


@njit((POINTS, INTS, BYTES, INT), cache=True)
def _lines(points, starts, kinds, most):  # type: ignore[no-untyped-def]
    """Return begin, end and letters of each line, its hash, each document's first line, and its surplus."""
    rows, hashes = np.empty((most, 3), np.int64), np.empty(most, np.uint64)
    first, surplus = np.zeros(len(starts), np.int64), np.zeros(len(starts) - 1, np.uint8)
    count = 0
    for document in range(len(starts) - 1):
        first[document] = count
        begin, end, code = starts[document], starts[document + 1], False
        if end > begin and (points[begin] == 10 or points[end - 1] == 10):
            surplus[document] = 1
        letters, empty = 0, 0
        for at in range(begin, end + 1):
            if at < end and points[at] != 10:
                kind = kinds[points[at]]
                letters += 2 if 0x3400 <= points[at] < 0xA000 else kind & 1
                continue
            low, high = begin, at
            while low < high and _blank(points[low]):
                low += 1
            while low < high and _blank(points[high - 1]):
                high -= 1
            empty = empty + 1 if at == begin else 0
            if (at > begin and _blank(points[at - 1])) or (empty > 1 and at < end):
                surplus[document] = 2
            code = code != _fence(points, low, high)
            rows[count, 0], rows[count, 1], rows[count, 2] = begin, at, letters
            hashes[count] = np.uint64(0) if code else hash_piece(points, low, high)
            count += 1
            begin, letters = at + 1, 0
    first[len(starts) - 1] = count
    return rows, hashes, first, surplus


def lines(points: Points, starts: Integers) -> Lines:
    """Split documents, given as `Batch.points` and `Batch.starts`, into lines."""
    most = int((points == 10).sum()) + len(starts) - 1
    rows, hashes, first, surplus = _lines(points, starts, flags(), most)
    return Lines(rows[:, 0], rows[:, 1], first, hashes, rows[:, 2], surplus)


@njit((POINTS, INT, INT, INT, POINTS), cache=True)
def _ends_item(points, at, stop, step, separators):  # type: ignore[no-untyped-def]
    """Whether an item of a line ends before `at`, going to `stop`: by the line's end, a sign or two spaces."""
    spaces = 0
    while at != stop:
        if points[at] != 32:
            return spaces > 1 or points[at] in separators
        spaces += 1
        at += step
    return True


@njit((POINTS, INTS, INTS, INTS, INTS, POINTS), cache=True)
def _alone(points, begins, ends, places, sizes, separators):  # type: ignore[no-untyped-def]
    """Tell which phrases are items of their own."""
    found = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        found[i] = (_ends_item(points, places[i] - 1, begins[i] - 1, -1, separators)
                    and _ends_item(points, places[i] + sizes[i], ends[i], 1, separators))
    return found


def alone(points: Points, begins: Integers, ends: Integers, places: Integers, sizes: Integers) -> Flags:
    """Tell of phrases, at `places` in lines from `begins` to `ends`, whether they are items of their own, as in a menu:
    between signs, two spaces or more, or ends of the line."""
    return np.asarray(_alone(points, begins, ends, places, sizes, _SEPARATORS))
