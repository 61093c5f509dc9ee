"""Lines of documents: how they begin and end, symbols, and whether short clauses stand in sentences, as in verse; and
how many different words of a list a document has."""

from collections.abc import Sequence

import numpy as np
from numba import njit

from argosy.core.lazy import Hashes, Integers, Points
from argosy.corpus.cleaning.kernels.characters import BREAK, SPACE, flags
from argosy.corpus.cleaning.kernels.types import BYTES, HASHES, INTS, POINTS
from argosy.corpus.cleaning.kernels.words import Words, words

_NEWLINE, _RETURN, _DOT, _ELLIPSIS, _HASH = 10, 13, ord("."), ord("…"), ord("#")
_COMMA = ord("，")
_ENDS = tuple(map(ord, "。！？"))
_CLAUSE_ENDS = tuple(map(ord, "，。！？；：、\n"))


def shape(points: Points, starts: Integers, bullets: str) -> Integers:
    """Count the lines of documents (as str.splitlines), those that begin with one of `bullets`, those that end in an
    ellipsis, all ellipses ("..." and "…"), and signs `#`: (documents, 5), int64."""
    marks = np.array(sorted(map(ord, bullets)), np.uint32)
    return _shape(points, starts, flags(), marks)


@njit((POINTS, INTS, BYTES, POINTS), cache=True)
def _shape(points, starts, kinds, bullets):  # type: ignore[no-untyped-def]
    """Count lines by how they begin and end, ellipses and signs."""
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


def verse(points: Points, starts: Integers) -> Integers:
    """Count the clauses of documents (between Chinese punctuation and lines' ends), their characters, and ends of
    sentences, which a line of two clauses has too: (documents, 3), int64."""
    return _verse(points, starts, flags())


@njit((POINTS, INTS, BYTES), cache=True)
def _verse(points, starts, kinds):  # type: ignore[no-untyped-def]
    """Count clauses, their characters and ends of sentences."""
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


def hashes_of(listed: Sequence[str]) -> Hashes:
    """Return the hashes of words, sorted, (words,), as `Words.hashes` has them."""
    text = " ".join(listed)
    found = words(np.frombuffer(text.encode("utf-32-le"), np.uint32), np.array([0, len(text)], np.int64)).hashes
    return np.unique(found)


def distinct(found: Words, listed: Hashes) -> Integers:
    """Count how many of some words each document has: (documents,), int64. `listed`: their hashes, sorted."""
    return _distinct(found.hashes, found.first, listed)


@njit((HASHES, INTS, HASHES), cache=True)
def _distinct(hashes, first, listed):  # type: ignore[no-untyped-def]
    """Count the different words of a list that each document has."""
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
