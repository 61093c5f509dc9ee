"""Characters of a document in repeated n-grams of words, the most frequent one and all that occurred before; lines and
paragraphs that occurred before."""

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Integers, Points
from argosy.corpus.cleaning.kernels.characters import ALPHABETIC, SPACE, flags
from argosy.corpus.cleaning.kernels.tables import add, clear, place, room
from argosy.corpus.cleaning.kernels.types import BOOL, BOOLS, BYTES, HASHES, INT, INTS, INTS32, POINTS
from argosy.corpus.cleaning.kernels.words import Words, hash_piece

_FACTOR, _ROTATED = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_NEWLINE = 10


def top(words: Words, sizes: Integers, spaced: Flags) -> Integers:
    """Return the characters of the most frequent n-gram times how often it occurs: (documents,), int64; 0 where none
    occurs twice; of several, the first in the text.

    sizes: n of each document. spaced: whether its words have spaces between them, which count too."""
    return _top(words.hashes, words.lengths, words.first, sizes, spaced)


def duplicate(words: Words, sizes: Integers) -> Integers:
    """Count the characters of words in n-grams that occurred before, each once: (documents,), int64.

    Going from left to right, an n-gram that occurred before is counted and passed over as a whole."""
    return _duplicate(words.hashes, words.lengths, words.first, sizes)


@njit((HASHES, INT, INT), cache=True)
def _gram(hashes, at, n):  # type: ignore[no-untyped-def]
    """Return the hash of an n-gram."""
    value = np.uint64(n)
    for word in range(at, at + n):
        value = (value ^ hashes[word]) * _FACTOR
        value ^= value >> _ROTATED
    return max(value, np.uint64(1))


@njit((INTS32, INT, INT), cache=True)
def _characters(lengths, at, n):  # type: ignore[no-untyped-def]
    """Count the characters of the words of an n-gram."""
    total = 0
    for word in range(at, at + n):
        total += lengths[word]
    return total


@njit((HASHES, INTS32, INTS, INTS, BOOLS), cache=True)
def _top(hashes, lengths, first, sizes, spaced):  # type: ignore[no-untyped-def]
    """Return the characters of the most frequent n-gram of documents."""
    found = np.zeros(len(sizes), np.int64)
    table, times, places = np.zeros(1024, np.uint64), np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    for document in range(len(sizes)):
        n, begin, end = sizes[document], first[document], first[document + 1]
        count = end - begin - n + 1
        if count < 2:
            continue
        table = room(table, count)
        if len(times) < len(table):
            times, places = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
        size = clear(table, count)
        most, where = 1, end
        for word in range(begin, begin + count):
            value = _gram(hashes, word, n)
            at = place(table, size, value)
            if table[at] == 0:
                table[at], times[at], places[at] = value, 1, word
                continue
            times[at] += 1
            if times[at] > most or (times[at] == most and places[at] < where):
                most, where = times[at], places[at]
        if most > 1:
            found[document] = most * (_characters(lengths, where, n) + (n - 1) * spaced[document])
    return found


@njit((HASHES, INTS32, INTS, INTS), cache=True)
def _duplicate(hashes, lengths, first, sizes):  # type: ignore[no-untyped-def]
    """Count the characters in n-grams that occurred before."""
    found = np.zeros(len(sizes), np.int64)
    table = np.zeros(1024, np.uint64)
    for document in range(len(sizes)):
        n, begin, end = sizes[document], first[document], first[document + 1]
        count = end - begin - n + 1
        if count < 2:
            continue
        table = room(table, count)
        size = clear(table, count)
        word = begin
        while word < begin + count:
            if add(table, size, _gram(hashes, word, n)):
                word += 1
            else:
                found[document] += _characters(lengths, word, n)
                word += n
    return found


def repeated(points: Points, starts: Integers, newlines: int, stripped: bool, lettered: bool) -> Integers:
    """Count pieces between runs of at least so many newlines (1: lines, 2: paragraphs) that occurred before.

    stripped: leave out white space at both ends of a document.
    lettered: leave out pieces without a letter.

    Returns: pieces, pieces that occurred before, and the characters of these, (documents, 3), int64."""
    return _repeated(points, starts, flags(), newlines, stripped, lettered)


@njit((POINTS, INT, INT, BYTES), cache=True)
def _has_letter(points, begin, end, kinds):  # type: ignore[no-untyped-def]
    """Tell whether a piece has a letter."""
    for at in range(begin, end):  # noqa: SIM110 (compiled)
        if kinds[points[at]] & ALPHABETIC:
            return True
    return False


@njit((POINTS, INTS, BYTES, INT, BOOL, BOOL), cache=True)
def _repeated(points, starts, kinds, newlines, stripped, lettered):  # type: ignore[no-untyped-def]
    """Count pieces, those that occurred before, and the characters of these."""
    counts = np.zeros((len(starts) - 1, 3), np.int64)
    table = np.zeros(1024, np.uint64)
    for document in range(len(starts) - 1):
        begin, end = starts[document], starts[document + 1]
        while stripped and begin < end and kinds[points[begin]] & SPACE:
            begin += 1
        while stripped and end > begin and kinds[points[end - 1]] & SPACE:
            end -= 1
        breaks = 0
        for at in range(begin, end):
            breaks += points[at] == _NEWLINE
        table = room(table, breaks + 1)
        size = clear(table, breaks + 1)
        first = at = begin
        while at <= end:
            run = at
            while run < end and points[run] == _NEWLINE:
                run += 1
            if at == end or run - at >= newlines:
                counted = not lettered or _has_letter(points, first, at, kinds)
                counts[document, 0] += counted
                if counted and not add(table, size, hash_piece(points, first, at)):
                    counts[document, 1] += 1
                    counts[document, 2] += at - first
                first = run
                if at == end:
                    break
            at = max(run, at + 1)
    return counts
