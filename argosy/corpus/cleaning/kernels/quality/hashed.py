"""N-grams of words and characters hashed into buckets (Weinberger et al. 2009, "Feature Hashing"), and what a linear
model makes of them."""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from argosy.corpus.cleaning.kernels.characters import BREAK, DIGIT, SPACE, flags, small_letters

if TYPE_CHECKING:
    import numpy.typing as npt

    from argosy.corpus.cleaning.kernels.pieces import Words

    Points = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]
    Floats32 = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int32]

_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_NEWLINE, _SPACE, _ZERO = 10, 32, 48


def rows(
    points: "Points", starts: "Integers", words: "Words", word_grams: int, character_grams: int, bits: int
) -> "tuple[Integers, Indices, Floats32]":
    """Return the features of documents as a sparse matrix of 2^bits columns: where each row begins, (documents + 1,),
    the columns, ascending in no order, and the values, 1 + log of how often they occur, of length 1 a row."""
    most = np.diff(words.first) * word_grams + np.diff(starts)
    begins, columns, values = _rows(points, starts, words.hashes, words.first, flags(), small_letters(), word_grams,
                                    character_grams, bits, int(most.sum()), int(most.max(initial=0)))
    return begins, columns, values


def products(
    points: "Points", starts: "Integers", words: "Words", word_grams: int, character_grams: int, weights: "Floats32"
) -> "npt.NDArray[np.float64]":
    """Return the products of the rows that `rows` makes with `weights`, (2^bits,): (documents,)."""
    most = int((np.diff(words.first) * word_grams + np.diff(starts)).max(initial=0))
    found: npt.NDArray[np.float64] = _products(points, starts, words.hashes, words.first, flags(), small_letters(),
                                               word_grams, character_grams, weights, most)
    return found


@njit(cache=True)
def _bucket(value, bits):  # type: ignore[no-untyped-def]
    return np.int64((value * _FACTOR) >> np.uint64(64 - bits))


@njit(cache=True)
def _tally(at, counts, touched, size):  # type: ignore[no-untyped-def]
    """Count a bucket, and list it in `touched` the first time; returns how many are listed."""
    if counts[at] == 0:
        touched[size] = at
        size += 1
    counts[at] += 1
    return size


@njit(cache=True)
def _spelt(points, begin, end, kinds, small, letters):  # type: ignore[no-untyped-def]
    """Write small letters, digits as 0, a run of white space as one space, or newline where a line ends in it."""
    size = 0
    for at in range(begin, end):
        kind = kinds[points[at]]
        if kind & SPACE:
            sign = _NEWLINE if kind & BREAK else _SPACE
            if size and letters[size - 1] in (_SPACE, _NEWLINE):
                letters[size - 1] = min(letters[size - 1], sign)
                continue
        else:
            sign = _ZERO if kind & DIGIT else small[points[at]]
        letters[size] = sign
        size += 1
    return size


@njit(cache=True)
def _count(points, begin, end, hashes, first, last, kinds, small, word_grams, n, bits, counts, touched, letters):  # type: ignore[no-untyped-def]
    """Count the buckets of a document in `counts`, and list them in `touched`; returns how many they are."""
    size = 0
    for word in range(first, last):
        value = np.uint64(0)
        for other in range(word, min(word + word_grams, last)):
            value = (value ^ hashes[other]) * _FACTOR
            value ^= value >> _HALF
            size = _tally(_bucket(value, bits), counts, touched, size)
    length = _spelt(points, begin, end, kinds, small, letters) if n else 0
    for start in range(length - n + 1 if n else 0):
        value = np.uint64(n)
        for at in range(start, start + n):
            value = (value ^ np.uint64(letters[at])) * _FACTOR
            value ^= value >> _HALF
        size = _tally(_bucket(value, bits), counts, touched, size)
    return size


@njit(cache=True)
def _rows(points, starts, hashes, first, kinds, small, word_grams, n, bits, most, longest):  # type: ignore[no-untyped-def]
    begins = np.zeros(len(starts), np.int64)
    columns, values = np.empty(most, np.int32), np.empty(most, np.float32)
    counts, touched, letters = np.zeros(1 << bits, np.int32), np.empty(longest, np.int64), np.empty(longest, np.uint32)
    for document in range(len(starts) - 1):
        begin = begins[document]
        size = _count(points, starts[document], starts[document + 1], hashes, first[document], first[document + 1],
                      kinds, small, word_grams, n, bits, counts, touched, letters)
        total = 0.0
        for number in range(size):
            at = touched[number]
            value = 1 + np.log(np.float64(counts[at]))
            total += value * value
            columns[begin + number], values[begin + number] = at, value
            counts[at] = 0
        for number in range(begin, begin + size):
            values[number] /= np.sqrt(total)
        begins[document + 1] = begin + size
    end = begins[len(starts) - 1]
    return begins, columns[:end].copy(), values[:end].copy()


@njit(cache=True)
def _products(points, starts, hashes, first, kinds, small, word_grams, n, weights, longest):  # type: ignore[no-untyped-def]
    bits = 0
    while (1 << bits) < len(weights):
        bits += 1
    found = np.zeros(len(starts) - 1)
    counts, touched, letters = np.zeros(1 << bits, np.int32), np.empty(longest, np.int64), np.empty(longest, np.uint32)
    for document in range(len(starts) - 1):
        size = _count(points, starts[document], starts[document + 1], hashes, first[document], first[document + 1],
                      kinds, small, word_grams, n, bits, counts, touched, letters)
        total, product = 0.0, 0.0
        for number in range(size):
            at = touched[number]
            value = 1 + np.log(np.float64(counts[at]))
            total += value * value
            product += value * weights[at]
            counts[at] = 0
        if size:
            found[document] = product / np.sqrt(total)
    return found
