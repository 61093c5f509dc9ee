"""The normal form of pieces of text (`argosy.text.scripts.normalise`) by a table of code points.

NFKC and casefold change a character without looking at its neighbours, but where one may combine with the character
before it (accents, vowels of Hangul and Indic scripts). A piece that has such a one is given to `normalise` itself; all
others cost a look into a table a character."""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from argosy.cleaning.kernels.dedup.hashing import hash128
from argosy.text.scripts import normalise

if TYPE_CHECKING:
    import numpy.typing as npt

    Points = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]

_SPACE = 32
_LETTERS_END = 0x34000  # no letter of Unicode is beyond it
_MANY, _COMBINES = 0x80000000, 0xFFFFFFFF  # an entry of several code points, by its number; one that may combine


class Table(NamedTuple):
    """The normal form of each code point.

    Attributes:
        targets: the code point, a space for one that is dropped, or `_MANY` + its number among `many`, or `_COMBINES`.
        many: code points of those that become several, end to end.
        offsets: where they begin in `many`, and the end."""

    targets: "Points"
    many: "Points"
    offsets: "Integers"


def _seconds() -> frozenset[str]:
    """Return the characters that some character before may combine with, those of a combining class aside."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(_LETTERS_END))
    composed = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return frozenset(composed) | frozenset(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))


@cache
def table() -> Table:
    """Make the table from Python's own Unicode data."""
    targets = np.full(0x110000, _SPACE, np.uint32)
    many: list[list[int]] = []
    seconds = _seconds()
    for code in (*range(0xD800), *range(0xE000, _LETTERS_END)):
        first = unicodedata.normalize("NFKD", chr(code))[:1]
        if unicodedata.combining(first) or first in seconds:
            targets[code] = _COMBINES
            continue
        becomes = unicodedata.normalize("NFKC", chr(code)).casefold()
        coded = [ord(c) if c.isalnum() else _SPACE for c in becomes]
        targets[code] = coded[0] if len(coded) == 1 else _MANY + len(many)
        if len(coded) != 1:
            many.append(coded)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(coded) for coded in many], dtype=np.int64)])
    return Table(targets, np.array([code for coded in many for code in coded], np.uint32), offsets)


@njit(cache=True)
def _room(points, begin, end, targets, offsets):  # type: ignore[no-untyped-def]
    """Count the code points that a piece may become; -1: one of them may combine."""
    room = 0
    for place in range(begin, end):
        target = targets[points[place]]
        if target < _MANY:
            room += 1
        elif target == _COMBINES:
            return -1
        else:
            room += offsets[target - _MANY + 1] - offsets[target - _MANY]
    return room


@njit(cache=True)
def _write(points, begin, end, targets, many, offsets, out, at):  # type: ignore[no-untyped-def]
    """Write the normal form of a piece from `at` on, without spaces at its ends; return its end."""
    spaced = True
    for place in range(begin, end):
        target = targets[points[place]]
        if target < _MANY:
            space = target == _SPACE
            out[at] = target
            at += not (space and spaced)
            spaced = space
        else:
            for entry in range(offsets[target - _MANY], offsets[target - _MANY + 1]):
                space = many[entry] == _SPACE
                out[at] = many[entry]
                at += not (space and spaced)
                spaced = space
    return at


@njit(cache=True)
def _normal(points, begins, ends, targets, many, offsets):  # type: ignore[no-untyped-def]
    combines = np.zeros(len(begins), np.bool_)
    total = 1
    for piece in range(len(begins)):
        room = _room(points, begins[piece], ends[piece], targets, offsets)
        combines[piece] = room < 0
        total += max(room, 0)
    out = np.empty(total, np.uint32)
    starts = np.zeros(len(begins) + 1, np.int64)
    for piece in range(len(begins)):
        begin = starts[piece]
        at = begin
        if not combines[piece]:
            at = _write(points, begins[piece], ends[piece], targets, many, offsets, out, begin)
        starts[piece + 1] = at - (at > begin and out[at - 1] == _SPACE)
    return out[: starts[-1]], starts, combines


def normal_hashes(
    points: "Points", begins: "Integers", ends: "Integers"
) -> tuple["npt.NDArray[np.uint64]", "Integers"]:
    """Hash the normal form of each piece of code points from `begins` to `ends`, and count its characters.

    A piece of symbols alone has an empty normal form: its hash is that of the piece as it is, its count 0. Returns
    (pieces, 2), uint64, and (pieces,), int64."""
    out, starts, combines = _normal(points, begins, ends, *table())
    hashes = hash128(out, starts[:-1], starts[1:])
    counts = np.diff(starts)
    for piece in np.flatnonzero(combines).tolist():
        coded = _coded(normalise(_text(points[begins[piece] : ends[piece]])))
        counts[piece] = len(coded)
        hashes[piece] = hash128(coded, np.zeros(1, np.int64), np.array([len(coded)]))[0]
    empty = np.flatnonzero(counts == 0)
    hashes[empty] = hash128(points, begins[empty], ends[empty])
    return hashes, counts


def _text(points: "Points") -> str:
    return points.tobytes().decode("utf-32-le", "surrogatepass")


def _coded(text: str) -> "Points":
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
