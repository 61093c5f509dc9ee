"""Places in a batch where personal data may stand: `@`, runs of digits, runs of hexadecimal digits and colons."""

import numpy as np
from numba import njit

from argosy.core.lazy import Integers, Points
from argosy.corpus.cleaning.kernels.types import INT, INT_ROWS, INTS, POINTS, written

AT, NUMBER, COLONS = 0, 1, 2
_LEAST_DIGITS = 7  # of the shortest address, 1.1.1.1 aside, which has its dots
_LEAST_DOTS = 3
_LEAST_COLONS = 2


@njit((written(INT_ROWS), INT, INT, INT, INT), cache=True)
def _add(found, count, begin, end, kind):  # type: ignore[no-untyped-def]
    """Append a place, in a larger array where it is full."""
    if count == len(found):
        found = np.concatenate((found, np.empty_like(found)))
    found[count, 0], found[count, 1], found[count, 2] = begin, end, kind
    return found, count + 1


@njit((INT,), cache=True)
def _in_number(point: int) -> bool:
    """Whether it may stand within a number: space ( ) + - . and full-width ( ) -."""
    return point == 32 or point == 40 or point == 41 or point == 43 or point == 45 or point == 46 or (
        point == 0xFF08 or point == 0xFF09 or point == 0xFF0D)


@njit((POINTS, INTS), cache=True)
def _find(points, starts):  # type: ignore[no-untyped-def]
    """Return (begin, end, kind) of each place."""
    found = np.empty((1024, 3), np.int64)
    count = 0
    for document in range(len(starts) - 1):
        first, end = starts[document], starts[document + 1]
        begin, last, digits, dots = -1, -1, 0, 0
        hexes, colons, opened = 0, 0, -1
        for at in range(first, end + 1):
            point = points[at] if at < end else 10
            digit = 48 <= point <= 57
            if digit:
                begin = at if begin < 0 else begin
                last = at
                digits += 1
            elif begin >= 0:
                if _in_number(point):
                    dots += point == 46
                else:
                    if digits >= _LEAST_DIGITS or (dots >= _LEAST_DOTS and digits >= 4):
                        found, count = _add(found, count, begin, last + 1, NUMBER)
                    begin, digits, dots = -1, 0, 0
            if digit or 97 <= (point | 32) <= 102 or point == 58 or (point == 46 and colons > 0):
                opened = at if opened < 0 else opened
                colons += point == 58
                hexes += point != 58 and point != 46
            elif opened >= 0:
                if colons >= _LEAST_COLONS and hexes >= 4:
                    found, count = _add(found, count, opened, at, COLONS)
                opened, colons, hexes = -1, 0, 0
            if point == 64 and first < at and at + 1 < end:
                found, count = _add(found, count, at, at + 1, AT)
    return found[:count]


def find(points: Points, starts: Integers) -> Integers:
    """Return (begin, end, kind) of each place in `points` (as `Batch.points` and `Batch.starts`), (places, 3); a number
    begins and ends with a digit, and what stands before and after it is for the caller to look at."""
    return _find(points, starts)
