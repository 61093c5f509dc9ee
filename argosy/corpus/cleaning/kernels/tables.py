"""Sets and counters of 64-bit hashes for one document at a time: open addressing in an array that is used again."""

import numpy as np
from numba import njit

from argosy.corpus.cleaning.kernels.types import HASHES, INT, WORD64, written

_SPREAD = np.uint64(0xD1B54A32D192ED03)
_HIGH = np.uint64(32)


@njit((INT,), cache=True)
def slots(count):  # type: ignore[no-untyped-def]
    """Return how many places a table for `count` hashes has: a power of two, at most half full."""
    size = 16
    while size < 2 * count:
        size *= 2
    return size


@njit((written(HASHES), INT), cache=True)
def room(table, count):  # type: ignore[no-untyped-def]
    """Return the table, or a larger one, with places for `count` hashes."""
    return table if len(table) >= slots(count) else np.zeros(slots(count), table.dtype)


@njit((written(HASHES), INT), cache=True)
def clear(table, count):  # type: ignore[no-untyped-def]
    """Empty the places that `count` hashes need, and return how many they are."""
    size = slots(count)
    table[:size] = 0
    return size


@njit((HASHES, INT, WORD64), cache=True)
def place(table, size, value):  # type: ignore[no-untyped-def]
    """Find the place of a hash, which is not 0: its own, or the free one where it belongs."""
    at = np.int64(((value * _SPREAD) >> _HIGH) & np.uint64(size - 1))
    while table[at] != 0 and table[at] != value:
        at = (at + 1) & (size - 1)
    return at


@njit((written(HASHES), INT, WORD64), cache=True)
def add(table, size, value):  # type: ignore[no-untyped-def]
    """Put a hash into a set; tell whether it is new."""
    value = max(value, np.uint64(1))  # 0 marks a free place
    at = place(table, size, value)
    new = table[at] == 0
    table[at] = value
    return new
