"""Characters of a document in repeated n-grams of words: the most frequent one, and all that occurred before."""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from argosy.corpus.cleaning.kernels.pieces import Words
from argosy.corpus.cleaning.kernels.tables import add, clear, place, room

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

_FACTOR, _ROTATED = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def top(words: Words, sizes: "Integers", spaced: "npt.NDArray[np.bool_]") -> "Integers":
    """Return the characters of the most frequent n-gram times how often it occurs: (documents,), int64; 0 where none
    occurs twice; of several, the first in the text.

    sizes: n of each document. spaced: whether its words have spaces between them, which count too."""
    found: Integers = _top(words.hashes, words.lengths, words.first, sizes, spaced)
    return found


def duplicate(words: Words, sizes: "Integers") -> "Integers":
    """Count the characters of words in n-grams that occurred before, each once: (documents,), int64.

    Going from left to right, an n-gram that occurred before is counted and passed over as a whole."""
    found: Integers = _duplicate(words.hashes, words.lengths, words.first, sizes)
    return found


@njit(cache=True)
def _gram(hashes, at, n):  # type: ignore[no-untyped-def]
    value = np.uint64(n)
    for word in range(at, at + n):
        value = (value ^ hashes[word]) * _FACTOR
        value ^= value >> _ROTATED
    return max(value, np.uint64(1))


@njit(cache=True)
def _characters(lengths, at, n):  # type: ignore[no-untyped-def]
    total = 0
    for word in range(at, at + n):
        total += lengths[word]
    return total


@njit(cache=True)
def _top(hashes, lengths, first, sizes, spaced):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def _duplicate(hashes, lengths, first, sizes):  # type: ignore[no-untyped-def]
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
