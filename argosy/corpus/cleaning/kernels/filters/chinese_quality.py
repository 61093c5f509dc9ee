"""Chinese documents: Han characters, lines that end a sentence, characters of the traditional or simplified script."""

import numpy as np
from numba import njit

from argosy.core.lazy import Bytes, Integers, Points
from argosy.corpus.cleaning.kernels.characters import HAN_LETTER, SPACE, STOP, flags
from argosy.corpus.cleaning.kernels.types import BYTES, INTS, POINTS

_NEWLINE = 10
_PAUSES = (ord("…"), ord("："))
_CLOSING = "\"')”’）】」』》"
_CLOSES = 1
TRADITIONAL, SIMPLIFIED = 1, 2


def chinese_counts(points: Points, starts: Integers, scripts: Bytes) -> Integers:
    """Count visible characters, Han characters, ends of sentences, lines that are not blank, those that end a sentence
    (an ellipsis, a colon and closing signs included), traditional and simplified characters: (documents, 7), int64.

    scripts: TRADITIONAL or SIMPLIFIED for each code point that is of one script alone, else 0, (0x110000,)."""
    kinds = flags() & (HAN_LETTER | SPACE | STOP)
    kinds[list(map(ord, _CLOSING))] |= _CLOSES
    return _chinese_counts(points, starts, kinds, scripts)


@njit((POINTS, INTS, BYTES, BYTES), cache=True)
def _chinese_counts(points, starts, kinds, scripts):  # type: ignore[no-untyped-def]
    """Count the characters of documents by kind."""
    counts = np.zeros((len(starts) - 1, 7), np.int64)
    for document in range(len(starts) - 1):
        visible, ended, stopped = 0, False, False
        for at in range(starts[document], starts[document + 1] + 1):
            if at == starts[document + 1] or points[at] == _NEWLINE:
                counts[document, 0] += visible
                counts[document, 3] += visible > 0
                counts[document, 4] += ended
                visible, ended, stopped = 0, False, False
                continue
            point = points[at]
            kind = kinds[point]
            if kind & SPACE:
                continue
            visible += 1
            stop = (kind & STOP) != 0
            counts[document, 2] += stop and not stopped  # three dots are one end
            stopped = stop
            ended = stop or point in _PAUSES or (ended and (kind & _CLOSES) != 0)
            if kind & HAN_LETTER:
                counts[document, 1] += 1
                counts[document, 5] += scripts[point] == TRADITIONAL
                counts[document, 6] += scripts[point] == SIMPLIFIED
    return counts
