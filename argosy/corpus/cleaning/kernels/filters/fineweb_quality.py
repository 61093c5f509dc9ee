"""Lines of documents between newlines: those that end a sentence, short ones, copies."""

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Integers, Points
from argosy.corpus.cleaning.kernels.characters import SPACE, flags
from argosy.corpus.cleaning.kernels.tables import add, clear, room
from argosy.corpus.cleaning.kernels.types import BOOLS, BYTES, INTS, POINTS
from argosy.corpus.cleaning.kernels.words import hash_piece

_NEWLINE = 10


def line_counts(points: Points, starts: Integers, ends: Flags, short: Integers) -> Integers:
    """Count lines that are not blank, those of them that end in one of `ends`, and those of at most `short` characters;
    characters of those that occurred before, and newlines: (documents, 5), int64.

    Args:
        ends: of each code point, whether a line may end so, (0x110000,).
        short: of each document, (documents,)."""
    return _line_counts(points, starts, flags(), ends, short)


@njit((POINTS, INTS, BYTES, BOOLS, INTS), cache=True)
def _line_counts(points, starts, kinds, ends, short):  # type: ignore[no-untyped-def]
    """Count lines by how they end, how long they are and whether they occurred before."""
    counts = np.zeros((len(starts) - 1, 5), np.int64)
    table = np.zeros(1024, np.uint64)
    for document in range(len(starts) - 1):
        begin, end, newlines = starts[document], starts[document + 1], 0
        for at in range(begin, end):
            newlines += points[at] == _NEWLINE
        counts[document, 4] = newlines
        table = room(table, newlines + 1)
        size = clear(table, newlines + 1)
        visible = False
        for at in range(begin, end + 1):
            if at < end and points[at] != _NEWLINE:
                visible |= not kinds[points[at]] & SPACE
                continue
            if visible:
                counts[document, 0] += 1
                counts[document, 1] += ends[points[at - 1]]
                counts[document, 2] += at - begin <= short[document]
                if not add(table, size, hash_piece(points, begin, at)):
                    counts[document, 3] += at - begin
            begin, visible = at + 1, False
    return counts
