"""N-grams of words and characters hashed into buckets (Weinberger et al. 2009, "Feature Hashing"), and what a linear
model makes of them. It is fitted by stochastic dual coordinate ascent (Shalev-Shwartz and Zhang 2013, section 6): the
optimum of logistic regression, in a fixed order and without a library whose sums depend on its threads."""

from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Bytes, Floats, Floats32, Hashes, Integers, Integers32, Points
from argosy.corpus.cleaning.kernels import types
from argosy.corpus.cleaning.kernels.characters import BREAK, DIGIT, SPACE, flags, small_letters
from argosy.corpus.cleaning.kernels.types import named, parts, written
from argosy.corpus.cleaning.kernels.words import Words

_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_NEWLINE, _SPACE, _ZERO = 10, 32, 48
_PASSES = 300  # at most; a few dozen are the rule
_STEP, _PLUS, _HIGH = np.uint64(6364136223846793005), np.uint64(1442695040888963407), np.uint64(33)  # Knuth's MMIX


class Grams(NamedTuple):
    """Documents, and which of their n-grams are features.

    Attributes:
        points, starts: `Batch.points`, `Batch.starts`.
        hashes, first: of `Words`.
        kinds, small: flags and small letter of each code point.
        words, characters: most words, and number of characters, of an n-gram."""

    points: Points
    starts: Integers
    hashes: Hashes
    first: Integers
    kinds: Bytes
    small: Points
    words: int
    characters: int


GRAMS = named(Grams, types.POINTS, *map(written, (types.INTS, types.HASHES, types.INTS, types.BYTES, types.POINTS)),
              types.INT, types.INT)


def rows(points: Points, starts: Integers, words: Words, word_grams: int, character_grams: int,
         bits: int) -> tuple[Integers, Integers32, Floats32]:
    """Return the features of documents as a sparse matrix of 2^bits columns: where each row begins, (documents + 1,),
    the columns, ascending in no order, and the values, 1 + log of how often they occur, of length 1 a row."""
    most = np.diff(words.first) * word_grams + np.diff(starts)
    grams = Grams(points, starts, words.hashes, words.first, flags(), small_letters(), word_grams, character_grams)
    return _rows(grams, bits, int(most.sum()), int(most.max(initial=0)))


def products(points: Points, starts: Integers, words: Words, word_grams: int, character_grams: int,
             weights: Floats32) -> Floats:
    """Return the products of the rows that `rows` makes with `weights`, (2^bits,): (documents,)."""
    most = int((np.diff(words.first) * word_grams + np.diff(starts)).max(initial=0))
    grams = Grams(points, starts, words.hashes, words.first, flags(), small_letters(), word_grams, character_grams)
    return _products(grams, weights, most)


@njit((types.WORD64, types.INT), cache=True)
def _bucket(value, bits):  # type: ignore[no-untyped-def]
    """Return the bucket of a hash."""
    return np.int64((value * _FACTOR) >> np.uint64(64 - bits))


@njit((types.INT, written(types.INTS32), written(types.INTS), types.INT), cache=True)
def _tally(at, counts, touched, size):  # type: ignore[no-untyped-def]
    """Count a bucket, and list it in `touched` the first time; returns how many are listed."""
    if counts[at] == 0:
        touched[size] = at
        size += 1
    counts[at] += 1
    return size


@njit((GRAMS, types.INT, written(types.POINTS)), cache=True)
def _spelt(grams, document, letters):  # type: ignore[no-untyped-def]
    """Write small letters, digits as 0, a run of white space as one space, or newline where a line ends in it."""
    size, points = 0, grams.points
    for at in range(grams.starts[document], grams.starts[document + 1]):
        kind = grams.kinds[points[at]]
        if kind & SPACE:
            sign = _NEWLINE if kind & BREAK else _SPACE
            if size and letters[size - 1] in (_SPACE, _NEWLINE):
                letters[size - 1] = min(letters[size - 1], sign)
                continue
        else:
            sign = _ZERO if kind & DIGIT else grams.small[points[at]]
        letters[size] = sign
        size += 1
    return size


@njit((GRAMS, types.INT, types.INT, written(types.INTS32), written(types.INTS), written(types.POINTS)), cache=True)
def _count(grams, document, bits, counts, touched, letters):  # type: ignore[no-untyped-def]
    """Count the buckets of a document in `counts`, and list them in `touched`; returns how many they are."""
    hashes, last, n = grams.hashes, grams.first[document + 1], grams.characters
    size = 0
    for word in range(grams.first[document], last):
        value = np.uint64(0)
        for other in range(word, min(word + grams.words, last)):
            value = (value ^ hashes[other]) * _FACTOR
            value ^= value >> _HALF
            size = _tally(_bucket(value, bits), counts, touched, size)
    length = _spelt(grams, document, letters) if n else 0
    for start in range(length - n + 1 if n else 0):
        value = np.uint64(n)
        for at in range(start, start + n):
            value = (value ^ np.uint64(letters[at])) * _FACTOR
            value ^= value >> _HALF
        size = _tally(_bucket(value, bits), counts, touched, size)
    return size


@njit((GRAMS, types.INT, types.INT, types.INT), cache=True)
def _rows(grams, bits, most, longest):  # type: ignore[no-untyped-def]
    """Return the sparse rows of documents; `most`: buckets of all, `longest`: of one, at most."""
    starts = grams.starts
    begins = np.zeros(len(starts), np.int64)
    columns, values = np.empty(most, np.int32), np.empty(most, np.float32)
    counts, touched, letters = np.zeros(1 << bits, np.int32), np.empty(longest, np.int64), np.empty(longest, np.uint32)
    for document in range(len(starts) - 1):
        begin = begins[document]
        size = _count(grams, document, bits, counts, touched, letters)
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


@njit((GRAMS, types.FLOATS32, types.INT), cache=True)
def _products(grams, weights, longest):  # type: ignore[no-untyped-def]
    """Return the products of rows with weights; `longest`: most buckets of a document."""
    starts = grams.starts
    bits = 0
    while (1 << bits) < len(weights):
        bits += 1
    found = np.zeros(len(starts) - 1)
    counts, touched, letters = np.zeros(1 << bits, np.int32), np.empty(longest, np.int64), np.empty(longest, np.uint32)
    for document in range(len(starts) - 1):
        size = _count(grams, document, bits, counts, touched, letters)
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


def fit(begins: Integers, columns: Integers32, values: Floats32, targets: Floats, size: int, c: float,
        tolerance: float = 1e-5) -> Floats:
    """Return the weights that minimise |w|^2 / 2 + c * the sum of losses, (size + 1,): the last one is the intercept,
    which is of a feature that is 1 everywhere and so counts in |w|^2.

    Args:
        begins, columns, values: sparse rows, as `rows` makes them.
        targets: -1 or 1, (rows,).
        c: weight of the losses log(1 + exp(-y z)).
        tolerance: it ends when no dual variable changes by more than this times c in a pass."""
    return _fit((begins, columns, values), targets, size, c, tolerance)


@njit((parts(types.INTS, types.INTS32, types.FLOATS32), types.FLOATS, types.INT, types.FLOAT, types.FLOAT), cache=True)
def _fit(sparse, targets, size, c, tolerance):  # type: ignore[no-untyped-def]
    """Return the weights of a linear model of sparse rows."""
    begins, columns, values = sparse
    count = len(targets)
    weights, dual, order = np.zeros(size + 1), np.zeros(count), np.arange(count)
    norms = np.ones(count)
    for row in range(count):
        for at in range(begins[row], begins[row + 1]):
            norms[row] += values[at] * values[at]
    state = np.uint64(1)
    for _ in range(_PASSES):
        for last in range(count - 1, 0, -1):  # another order in each pass, the same ones in each run
            state = state * _STEP + _PLUS
            other = np.int64((state >> _HIGH) % np.uint64(last + 1))
            order[last], order[other] = order[other], order[last]
        largest = 0.0
        for number in range(count):
            row = order[number]
            score = weights[size]
            for at in range(begins[row], begins[row + 1]):
                score += weights[columns[at]] * values[at]
            y = targets[row]
            step = (y / (1 + np.exp(y * score)) - dual[row]) / max(1.0, 0.25 + c * norms[row])
            dual[row] += step
            largest = max(largest, abs(step))
            for at in range(begins[row], begins[row + 1]):
                weights[columns[at]] += c * step * values[at]
            weights[size] += c * step
        if largest <= tolerance:
            break
    return weights
