"""Types of what the loops take: a call with another type is an error, and compiles nothing.

Arrays are in C order. What a loop writes is `written`; the others may be read-only."""

from typing import Any

from numba import types

INT, WORD32, WORD64, FLOAT, BOOL = types.int64, types.uint32, types.uint64, types.float64, types.boolean


def _array(kind: Any, dimensions: int = 1) -> Any:
    return types.Array(kind, dimensions, "C", readonly=True)


INTS, INTS32, INT_ROWS = _array(INT), _array(types.int32), _array(INT, 2)
POINTS, HASHES = _array(WORD32), _array(WORD64)
BYTES, PAIRS, BOOLS = _array(types.uint8), _array(types.uint16), _array(BOOL)
FLOATS, FLOATS32, FLOAT_ROWS = _array(FLOAT), _array(types.float32), _array(FLOAT, 2)
COLUMN = types.Array(INT, 1, "A", readonly=True)  # of a table, or an array of its own


def written(array: Any) -> Any:
    """Return the type of an array that is written."""
    return array.copy(readonly=False)


def named(kind: type[tuple[Any, ...]], *kinds: Any) -> Any:
    """Return the type of a named tuple, of which numba wants each part exactly."""
    return types.NamedTuple(kinds, kind)  # type: ignore[no-untyped-call]


def parts(*kinds: Any) -> Any:
    """Return the type of a tuple."""
    return types.Tuple(kinds)  # type: ignore[no-untyped-call]
