"""Pieces of documents: where lines, paragraphs and sentences begin and end, with what separates them from the next."""

import numpy as np
from numba import njit

from argosy.core.lazy import Integers, Points
from argosy.corpus.cleaning.kernels.characters import SPACE, flags
from argosy.corpus.cleaning.kernels.types import BYTES, INT, INT_ROWS, INTS, POINTS, written

LINES, PARAGRAPHS, SENTENCES = 0, 1, 2


@njit(cache=True, inline="always")
def _closing(point):  # type: ignore[no-untyped-def]
    """Whether it may stand between the end of a sentence and the next: a quotation mark or bracket that closes."""
    return (point == 34 or point == 39 or point == 41 or point == 93 or point == 0x2019 or point == 0x201D
            or point == 0x300D or point == 0x300F or point == 0xFF09)


@njit((POINTS, INT, INT, BYTES), cache=True)
def _sentence_end(points, at, end, kinds):  # type: ignore[no-untyped-def]
    """Return where the mark at `at` ends a sentence, its closing marks included; -1: it ends none."""
    point = points[at]
    wide = point == 0x3002 or point == 0xFF01 or point == 0xFF1F or point == 0x2026
    if point == 10:
        return at + 1
    if not (wide or point == 46 or point == 33 or point == 63):
        return -1
    at += 1
    while at < end and (_closing(points[at]) or points[at] == point):
        at += 1
    return at if wide or at == end or kinds[points[at]] & SPACE != 0 else -1


@njit((POINTS, INT, INT, BYTES), cache=True)
def _blank_line(points, at, end, kinds):  # type: ignore[no-untyped-def]
    """Whether nothing but space is between the line's end at `at` and the next one's, or the text's."""
    at += 1
    while at < end and points[at] != 10:
        if not kinds[points[at]] & SPACE:
            return False
        at += 1
    return True


@njit((POINTS, INT, INT, INT, BYTES), cache=True)
def _with_space(points, at, end, unit, kinds):  # type: ignore[no-untyped-def]
    """Return where the space after a piece ends: none after a line, blank lines after a paragraph."""
    if unit == SENTENCES:
        while at < end and kinds[points[at]] & SPACE:
            at += 1
    while unit == PARAGRAPHS and at < end and _blank_line(points, at - 1, end, kinds):
        while at < end and points[at] != 10:
            at += 1
        at += at < end
    return at


@njit((POINTS, INTS, INT, BYTES), cache=True)
def _split(points, starts, unit, kinds):  # type: ignore[no-untyped-def]
    """Return begin and end of each piece, and the number of each document's first piece."""
    found = np.empty((1024, 2), np.int64)
    first = np.zeros(len(starts), np.int64)
    count = 0
    for document in range(len(starts) - 1):
        at, end = starts[document], starts[document + 1]
        while at < end:
            begin = at
            stop = end
            while at < end:
                after = -1
                if unit == SENTENCES:
                    after = _sentence_end(points, at, end, kinds)
                elif points[at] == 10 and (unit == LINES or _blank_line(points, at, end, kinds)):
                    after = at + 1
                if after >= 0:
                    stop = after
                    break
                at += 1
            stop = _with_space(points, stop, end, unit, kinds)
            if count == len(found):
                found = np.concatenate((found, np.empty_like(found)))
            found[count, 0], found[count, 1] = begin, stop
            count += 1
            at = stop
        first[document + 1] = count
    return found[:count], first


def split(points: Points, starts: Integers, unit: int) -> tuple[Integers, Integers, Integers]:
    """Split documents (`Batch.points`, `Batch.starts`) into pieces that together are the whole text.

    Returns where each piece begins and ends, (pieces,) each, and the number of the first piece of each document,
    (documents + 1,). The space after a piece is a part of it: without the piece, the text has no gap."""
    found, first = _split(points, starts, unit, flags())
    return found[:, 0].copy(), found[:, 1].copy(), first


@njit((written(INT_ROWS),), cache=True)
def merge(spans):  # type: ignore[no-untyped-def]
    """Join spans (document, begin, end), ordered, that touch or overlap, in place; return their number."""
    count = 0
    for at in range(len(spans)):
        if count and spans[at, 0] == spans[count - 1, 0] and spans[at, 1] <= spans[count - 1, 2]:
            spans[count - 1, 2] = max(spans[count - 1, 2], spans[at, 2])
        else:
            spans[count] = spans[at]
            count += 1
    return count
