"""Normal forms of pieces of text, by tables of code points: of words (`argosy.corpus.text.scripts.normalise`) and of
the text (`unified`).

NFKC, NFC and casefold change a character without looking at its neighbours, but where one may combine with the
character before it (accents, vowels of Hangul and Indic scripts). A piece that has such a one is given to the function
itself; all others cost a look into a table a character."""

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Hashes, Integers, Points
from argosy.corpus.cleaning.kernels.dedup.hashing import hash128
from argosy.corpus.cleaning.kernels.types import INT, INTS, POINTS, named, written
from argosy.corpus.text.scripts import normalise, unified

_SPACE, _LINE = 32, 10
_LETTERS_END = 0x34000  # no letter of Unicode is beyond it
_MANY, _COMBINES = 0x80000000, 0xFFFFFFFF  # an entry of several code points, by its number; one that may combine


class Table(NamedTuple):
    """The normal form of each code point.

    Attributes:
        targets: the code point, a space for one that is dropped, or `_MANY` + its number among `many`, or `_COMBINES`.
        many: code points of those that become several, end to end.
        offsets: where they begin in `many`, and the end."""

    targets: Points
    many: Points
    offsets: Integers


TABLE = named(Table, *map(written, (POINTS, POINTS, INTS)))


def _seconds() -> frozenset[str]:
    """Return the characters that some character before may combine with, those of a combining class aside."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(_LETTERS_END))
    composed = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return frozenset(composed) | frozenset(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))


def _as_words(char: str) -> str:
    becomes = unicodedata.normalize("NFKC", char).casefold()
    return "".join(each if each.isalnum() else " " for each in becomes)


def _as_text(char: str) -> str:
    return "\n" if char in "\r\n" else " " if char.isspace() else unicodedata.normalize("NFC", char)


@cache
def table(words: bool) -> Table:
    """Make the table of the normal form of words, or of the text, from Python's own Unicode data."""
    targets = np.full(0x110000, _SPACE, np.uint32) if words else np.arange(0x110000, dtype=np.uint32)
    many: list[list[int]] = []
    seconds = _seconds()
    for code in (*range(0xD800), *range(0xE000, _LETTERS_END)):
        char = chr(code)
        first = unicodedata.normalize("NFKD" if words else "NFD", char)[:1]
        if unicodedata.combining(first) or first in seconds or (char.isspace() and first != char):
            targets[code] = _COMBINES
            continue
        coded = [ord(each) for each in (_as_words if words else _as_text)(char)]
        targets[code] = coded[0] if len(coded) == 1 else _MANY + len(many)
        if len(coded) != 1:
            many.append(coded)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(coded) for coded in many], dtype=np.int64)])
    return Table(targets, np.array([code for coded in many for code in coded], np.uint32), offsets)


@njit((POINTS, INT, INT, TABLE), cache=True)
def _room(points, begin, end, table):  # type: ignore[no-untyped-def]
    """Count the code points that a piece may become; -1: one of them may combine."""
    room = 0
    for place in range(begin, end):
        target = table.targets[points[place]]
        if target < _MANY:
            room += 1
        elif target == _COMBINES:
            return -1
        else:
            room += table.offsets[target - _MANY + 1] - table.offsets[target - _MANY]
    return room


@njit(cache=True, inline="always")
def _gap(points, line, place, out, at):  # type: ignore[no-untyped-def]
    """Write what stands for white space: a space, or a line break and the indentation from `line` on."""
    out[at] = _SPACE if line < 0 else _LINE
    at += 1
    for each in range(line, place if line >= 0 else line):
        out[at] = points[each]
        at += 1
    return at


@njit((POINTS, INT, INT, TABLE, written(POINTS), INT), cache=True)
def _write(points, begin, end, table, out, at):  # type: ignore[no-untyped-def]
    """Write the normal form of a piece from `at` on, without spaces at its ends; return its end."""
    start, space, line = at, False, -1
    for place in range(begin, end):
        target = table.targets[points[place]]
        several = target >= _MANY
        low = table.offsets[target - _MANY] if several else 0
        for entry in range(low, table.offsets[target - _MANY + 1] if several else 1):
            point = table.many[entry] if several else target
            if point == _SPACE:
                space = True
            elif point == _LINE:
                space, line = True, place + 1
            else:
                if space and at > start:
                    at = _gap(points, line, place, out, at)
                out[at] = point
                at += 1
                space, line = False, -1
    return at


@njit((POINTS, INTS, INTS, TABLE), cache=True)
def _normal(points, begins, ends, table):  # type: ignore[no-untyped-def]
    """Write the normal forms of pieces end to end; return them, where each begins, and which may combine."""
    combines = np.zeros(len(begins), np.bool_)
    total = 1
    for piece in range(len(begins)):
        room = _room(points, begins[piece], ends[piece], table)
        combines[piece] = room < 0
        total += max(room, 0)
    out = np.empty(total, np.uint32)
    starts = np.zeros(len(begins) + 1, np.int64)
    for piece in range(len(begins)):
        starts[piece + 1] = starts[piece]
        if not combines[piece]:
            starts[piece + 1] = _write(points, begins[piece], ends[piece], table, out, starts[piece])
    return out[: starts[-1]], starts, combines


def normal_hashes(points: Points, begins: Integers, ends: Integers, words: Flags) -> tuple[Hashes, Integers]:
    """Hash the normal form of each piece of code points from `begins` to `ends`, and count its characters.

    words: whether a piece's form is that of words, (pieces,), or of the text. Where that of words is empty, as of signs
    alone, the piece has that of the text, and its count is 0. Returns (pieces, 2), uint64, and (pieces,), int64."""
    hashes, counts = np.empty((len(begins), 2), np.uint64), np.zeros(len(begins), np.int64)
    rows = np.flatnonzero(words)
    if len(rows):
        hashes[rows], counts[rows] = _hashes(points, begins[rows], ends[rows], True)
    empty = words & (counts == 0)
    rows = np.flatnonzero(~words | empty)
    if len(rows):
        hashes[rows], counts[rows] = _hashes(points, begins[rows], ends[rows], False)
    counts[empty] = 0
    return hashes, counts


def _hashes(points: Points, begins: Integers, ends: Integers, words: bool) -> tuple[Hashes, Integers]:
    out, starts, combines = _normal(points, begins, ends, table(words))
    hashes, counts = hash128(out, starts[:-1], starts[1:]), np.diff(starts)
    for piece in np.flatnonzero(combines).tolist():
        coded = _coded((normalise if words else unified)(_text(points[begins[piece] : ends[piece]])))
        counts[piece] = len(coded)
        hashes[piece] = hash128(coded, np.zeros(1, np.int64), np.array([len(coded)]))[0]
    return hashes, counts


def _text(points: Points) -> str:
    return points.tobytes().decode("utf-32-le", "surrogatepass")


def _coded(text: str) -> Points:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
