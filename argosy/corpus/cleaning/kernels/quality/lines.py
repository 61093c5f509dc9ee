"""Lines of documents: how they begin and end, symbols, and whether short clauses stand in sentences, as in verse."""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from argosy.corpus.cleaning.kernels.characters import BREAK, SPACE, flags

if TYPE_CHECKING:
    import numpy.typing as npt

    Points = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]

_NEWLINE, _RETURN, _DOT, _ELLIPSIS, _HASH = 10, 13, ord("."), ord("…"), ord("#")
_COMMA = ord("，")
_ENDS = tuple(map(ord, "。！？"))
_CLAUSE_ENDS = tuple(map(ord, "，。！？；：、\n"))


def shape(points: "Points", starts: "Integers", bullets: str) -> "Integers":
    """Count the lines of documents (as str.splitlines), those that begin with one of `bullets`, those that end in an
    ellipsis, all ellipses ("..." and "…"), and signs `#`: (documents, 5), int64."""
    marks = np.array(sorted(map(ord, bullets)), np.uint32)
    counts: Integers = _shape(points, starts, flags(), marks)
    return counts


@njit(cache=True)
def _shape(points, starts, kinds, bullets):  # type: ignore[no-untyped-def]
    counts = np.zeros((len(starts) - 1, 5), np.int64)
    for document in range(len(starts) - 1):
        at, end = starts[document], starts[document + 1]
        while at < end:
            first, last, dots = -1, -1, 0  # of what is no white space; dots that may be an ellipsis
            while at < end and not kinds[points[at]] & BREAK:
                point = points[at]
                dots = dots + 1 if point == _DOT else 0
                if dots == 3:
                    counts[document, 3], dots = counts[document, 3] + 1, 0
                counts[document, 3] += point == _ELLIPSIS
                counts[document, 4] += point == _HASH
                if not kinds[point] & SPACE:
                    first, last = at if first < 0 else first, at
                at += 1
            counts[document, 0] += 1
            if first >= 0:
                counts[document, 1] += np.any(bullets == points[first])
                three = last - first >= 2 and points[last] == points[last - 1] == points[last - 2] == _DOT
                counts[document, 2] += three or points[last] == _ELLIPSIS
            if at + 1 < end and points[at] == _RETURN and points[at + 1] == _NEWLINE:
                at += 1
            at += 1
    return counts


def verse(points: "Points", starts: "Integers") -> "Integers":
    """Count the clauses of documents (between Chinese punctuation and lines' ends), their characters, and ends of
    sentences, which a line of two clauses has too: (documents, 3), int64."""
    counts: Integers = _verse(points, starts, flags())
    return counts


@njit(cache=True)
def _verse(points, starts, kinds):  # type: ignore[no-untyped-def]
    counts = np.zeros((len(starts) - 1, 3), np.int64)
    for document in range(len(starts) - 1):
        first, last, comma = -1, -1, False
        for at in range(starts[document], starts[document + 1] + 1):
            over = at == starts[document + 1]
            point = np.uint32(_NEWLINE) if over else points[at]
            if point in _CLAUSE_ENDS:
                if first >= 0:
                    counts[document, 0] += 1
                    counts[document, 1] += last - first + 1
                first = -1
                if point in _ENDS or (point == _NEWLINE and comma and not over):
                    counts[document, 2] += 1
                comma = point == _COMMA or (comma and point != _NEWLINE and point not in _ENDS)
            elif not kinds[point] & SPACE:
                first, last = at if first < 0 else first, at
    return counts
