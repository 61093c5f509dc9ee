"""Windows of a fixed number of code points, and fingerprints that equal ones share (winnowing, Schleimer et al. 2003).

Of the hashes of half a window's length that begin in a window, the least one is the window's fingerprint: windows that
are equal have it at the same place. A document has about one for every quarter of a window's length."""

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Hashes, Integers, Points
from argosy.corpus.cleaning.kernels.dedup.hashing import mix
from argosy.corpus.cleaning.kernels.types import BOOLS, HASHES, INT, INTS, POINTS, written

_BASE = np.uint64(0x9E3779B97F4A7C15)  # of the rolling hash, modulo 2^64


@njit((POINTS, INT, INT, INT, written(HASHES)), cache=True)
def _rolling(points, begin, end, size, out):  # type: ignore[no-untyped-def]
    """Write the hash of each run of `size` code points (Karp and Rabin 1987, over mixed code points)."""
    leaving = np.uint64(1)
    for _ in range(size):
        leaving *= _BASE
    value = np.uint64(0)
    for at in range(begin, end):
        value = value * _BASE + mix(np.uint64(points[at]) + np.uint64(1))
        if at - begin >= size:
            value -= leaving * mix(np.uint64(points[at - size]) + np.uint64(1))
        if at - begin >= size - 1:
            out[at - begin - size + 1] = mix(value)


@njit((HASHES, INT, INT, written(INTS), written(INTS)), cache=True)
def _select(hashes, count, width, queue, out):  # type: ignore[no-untyped-def]
    """Write for each run of `width` hashes the place of its least one, the first of equals (by a monotone queue)."""
    head, tail = 0, 0
    for at in range(count):
        while tail > head and hashes[queue[tail - 1]] > hashes[at]:
            tail -= 1
        queue[tail] = at
        tail += 1
        if queue[head] <= at - width:
            head += 1
        if at >= width - 1:
            out[at - width + 1] = queue[head]


@njit((INTS,), cache=True)
def _longest(starts):  # type: ignore[no-untyped-def]
    """Return the length of the longest document, at least 1."""
    longest = 1
    for document in range(len(starts) - 1):
        longest = max(longest, starts[document + 1] - starts[document])
    return longest


@njit((POINTS, INTS, INT), cache=True)
def _fingerprints(points, starts, length):  # type: ignore[no-untyped-def]
    """Return the fingerprints of documents, and how many each has."""
    size, room = length // 2, _longest(starts)
    hashes, queue, chosen = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    counts = np.zeros(len(starts) - 1, np.int64)
    out = np.empty(1024, np.uint64)
    total = 0
    for document in range(len(starts) - 1):
        begin, end = starts[document], starts[document + 1]
        windows = end - begin - length + 1
        if windows <= 0:
            continue
        _rolling(points, begin, end, size, hashes)
        _select(hashes, end - begin - size + 1, length - size + 1, queue, chosen)
        for window in range(windows):
            if window and chosen[window] == chosen[window - 1]:
                continue
            if total == len(out):
                out = np.concatenate((out, np.empty_like(out)))
            out[total] = hashes[chosen[window]]
            total += 1
            counts[document] += 1
    return out[:total], counts


@njit((POINTS, INTS, INT, HASHES, BOOLS, INTS), cache=True)
def _windows(points, starts, length, numbers, shared, firsts):  # type: ignore[no-untyped-def]
    """Return (hash, document, begin) of the windows whose fingerprint is shared."""
    size, room = length // 2, _longest(starts)
    hashes, queue, chosen = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    out = np.empty((1024, 3), np.uint64)
    total = 0
    for document in range(len(starts) - 1):
        begin, end = starts[document], starts[document + 1]
        _rolling(points, begin, end, size, hashes)
        _select(hashes, end - begin - size + 1, length - size + 1, queue, chosen)
        at = firsts[document]
        for window in range(end - begin - length + 1):
            if window and chosen[window] != chosen[window - 1]:
                at += 1
            if not shared[at]:
                continue
            if total == len(out):
                out = np.concatenate((out, np.empty_like(out)))
            # The two halves hold the whole window between them, and the one between them an odd length's middle.
            value = mix(hashes[window] + _BASE) ^ hashes[window + length - size]
            out[total, 0] = mix(value + hashes[window + (length - size) // 2])
            out[total, 1] = numbers[document]
            out[total, 2] = window
            total += 1
    return out[:total]


def fingerprints(points: Points, starts: Integers, length: int) -> tuple[Hashes, Integers]:
    """Return fingerprints of windows of `length`, document after document, uint64, and each one's number of them."""
    return _fingerprints(points, starts, length)


def windows(points: Points, starts: Integers, length: int, numbers: Integers, shared: Flags,
            firsts: Integers) -> Hashes:
    """Return the windows of `length` whose fingerprint is shared: (hash, number of the document, where it begins).

    Args:
        numbers: of the documents, (documents,).
        shared: whether another window has it, of each fingerprint of the documents in order.
        firsts: number of each document's first fingerprint in `shared`, (documents,)."""
    return _windows(points, starts, length, numbers, shared, firsts)
