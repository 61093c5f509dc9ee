"""Scripts and function words of the prose in documents: code, markup, paths and addresses count nothing.

The compiled form of `argosy.corpus.text.scripts.identify`, piece by piece: a paragraph or several, of some 60 words."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Bytes, Floats, Hashes, Integers, Points
from argosy.corpus.cleaning.kernels import types
from argosy.corpus.cleaning.kernels.characters import small_letters
from argosy.corpus.cleaning.kernels.types import named, parts, written
from argosy.corpus.text.scripts import LISTED

SCRIPTS = ("zh", "ja", "ko", "ru", "el", "ar", "he", "hi", "th")
LATIN = tuple(LISTED)  # English first: of languages with equally many function words it wins
_RANGES = {
    "ja": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f", "ko": "\uac00-\ud7af\u1100-\u11ff",
    "zh": "\u3400-\u4dbf\u4e00-\u9fff", "ru": "\u0400-\u052f", "el": "\u0370-\u03ff", "ar": "\u0600-\u06ff",
    "he": "\u0590-\u05ff", "hi": "\u0900-\u097f", "th": "\u0e00-\u0e7f"}
_LETTER, _TOKEN, _WORD, _SEPARATOR = 16, 32, 64, 128  # Latin letter; in a path; [\w] of ASCII; what makes it a path
_SLOTS = 1 << 12
_PIECE = 60.0  # words (of scripts: characters by `_EACH`) after which a piece ends at the next line
_EACH = 2.5  # characters of a script that count as a Latin word; of Chinese, Japanese and Korean one


class Prose(NamedTuple):
    """Measures of the prose of documents.

    Attributes:
        weights: of each script and then of each Latin-script language, (documents, languages): what counts as words.
        unknown: Latin words of pieces without function words, (documents,).
        hits: function words of each Latin-script language, (documents, languages).
        letters: of all scripts, (documents,)."""

    weights: Floats
    unknown: Floats
    hits: Floats
    letters: Floats


PROSE = named(Prose, *map(written, (types.FLOAT_ROWS, types.FLOATS, types.FLOAT_ROWS, types.FLOATS)))


@cache
def _classes() -> Bytes:
    """Return of each code point the number of its script, from 1, or what it is in Latin text, as bits."""
    table = np.zeros(0x110000, np.uint8)
    for number, lang in enumerate(SCRIPTS, 1):
        for low, high in zip(_RANGES[lang][::3], _RANGES[lang][2::3], strict=True):
            table[ord(low) : ord(high) + 1] = number
    for low, high in (("A", "Z"), ("a", "z"), ("\u00c0", "\u024f"), ("\u1e00", "\u1eff")):
        table[ord(low) : ord(high) + 1] |= _LETTER
    for character in map(chr, range(128)):
        word = character.isalnum() or character == "_"
        path = character in ".@/\\_"
        table[ord(character)] |= _WORD * word | _SEPARATOR * path | _TOKEN * (word or path or character == "-")
    return table


@cache
def _listed() -> tuple[Hashes, Points]:
    """Return a hash table of function words: keys, and the languages of each as bits."""
    keys, masks = np.zeros(_SLOTS, np.uint64), np.zeros(_SLOTS, np.uint32)
    for number, lang in enumerate(LATIN):
        for word in sorted(LISTED[lang]):
            value = _hash(np.array([ord(character) for character in word], np.uint32))
            slot = int(value) % _SLOTS
            while keys[slot] and keys[slot] != value:
                slot = (slot + 1) % _SLOTS
            keys[slot] = value
            masks[slot] |= 1 << number
    return keys, masks


@njit(cache=True, inline="always")
def _add(value, point):  # type: ignore[no-untyped-def]
    """Take a letter into the hash of a word (FNV-1a)."""
    return (value ^ np.uint64(point)) * np.uint64(0x100000001B3)


@njit((types.POINTS,), cache=True)
def _hash(points):  # type: ignore[no-untyped-def]
    """Hash a word."""
    value = np.uint64(0xCBF29CE484222325)
    for point in points:
        value = _add(value, point)
    return value


@njit((types.HASHES, types.POINTS, types.WORD64), cache=True)
def _look_up(keys, masks, value):  # type: ignore[no-untyped-def]
    """Return the languages of which a word is a function word, as bits."""
    slot = np.int64(value % np.uint64(len(keys)))
    while keys[slot] != 0:
        if keys[slot] == value:
            return masks[slot]
        slot = (slot + 1) % len(keys)
    return np.uint32(0)


@njit((types.POINTS, types.INT, types.INT, types.INT, types.INT), cache=True)
def _until(points, at, end, wanted, other):  # type: ignore[no-untyped-def]
    """Find `wanted` before a newline or `other`; -1: it is not there."""
    while at < end and points[at] != 10 and points[at] != other:
        if points[at] == wanted:
            return at
        at += 1
    return -1


@njit((types.POINTS, types.INT, types.INT), cache=True)
def _fence(points, at, end):  # type: ignore[no-untyped-def]
    """Whether three backticks stand at `at`."""
    return at + 2 < end and points[at] == 96 and points[at + 1] == 96 and points[at + 2] == 96


@njit((types.POINTS, types.BYTES, types.INT, types.INT), cache=True)
def _no_prose(points, classes, at, end):  # type: ignore[no-untyped-def]
    """Return where code, a tag, an address or a path that begins at `at` ends; `at`: none does."""
    point = points[at]
    if point == 96:
        if _fence(points, at, end):
            at += 3
            while at < end and not _fence(points, at, end):
                at += 1
            return min(at + 3, end)
        close = _until(points, at + 1, end, 96, 96 + (1 << 30))
        return close + 1 if close >= 0 else at
    if point == 60:
        close = _until(points, at + 1, end, 62, 60)
        return close + 1 if close > at + 1 else at
    stop, last, found = at, -1, -1
    while stop < end and classes[points[stop]] & _TOKEN:
        if classes[points[stop]] & _WORD and last >= 0:
            found = stop
        if classes[points[stop]] & _SEPARATOR:
            last = stop
        stop += 1
    if (stop + 2 < end and points[stop] == 58 and points[stop + 1] == 47 and points[stop + 2] == 47):
        while stop < end and points[stop] != 32 and points[stop] != 10 and points[stop] != 9:
            stop += 1
        return stop
    return found + 1 if found >= 0 else at


@njit((written(types.FLOATS), types.FLOAT, *(written(types.FLOATS),) * 3), cache=True)
def _close(row, unknown, counts, hits, total):  # type: ignore[no-untyped-def]
    """Take a piece into its document: its Latin words are of the language with most function words."""
    words = counts[0]
    if counts[2] > 0.1 * counts[1]:  # kana among Han characters
        counts[2] += counts[1]
        counts[1] = 0
    for script in range(1, len(counts)):
        row[script - 1] += counts[script] / (1.0 if script <= 3 else _EACH)
    best = 0
    for lang in range(len(hits)):
        total[lang] += hits[lang]
        if hits[lang] > hits[best]:
            best = lang
    if hits[best] > 0 and hits[best] >= 0.08 * words:
        row[len(counts) - 1 + best] += words
    else:
        unknown += words
    counts[:] = 0
    hits[:] = 0
    return unknown


@njit((types.POINTS, types.INTS, parts(types.BYTES, types.POINTS, types.HASHES, types.POINTS), PROSE), cache=True)
def _measure(points, starts, tables, found):  # type: ignore[no-untyped-def]
    """Fill in the measures `found` of documents."""
    classes, small, keys, masks = tables
    weights, unknowns, totals, letters = found
    scripts = weights.shape[1] - totals.shape[1]
    counts, hits = np.zeros(scripts + 1), np.zeros(totals.shape[1])
    for document in range(len(starts) - 1):
        at, end = starts[document], starts[document + 1]
        checked, inside, size, unknown, seen = at, False, 0.0, 0.0, 0
        value = np.uint64(0xCBF29CE484222325)
        while at <= end:
            point = points[at] if at < end else np.uint32(10)
            kind = classes[point]
            letter = kind & _LETTER
            if at < end and at >= checked and (point == 96 or point == 60 or (kind & _TOKEN and not inside)):
                stop = _no_prose(points, classes, at, end)
                if stop == at and kind & _TOKEN:
                    checked = at + 1
                    while checked < end and classes[points[checked]] & _TOKEN:
                        checked += 1
                elif stop > at:
                    letter, point = 0, np.uint32(32)
            else:
                stop = at
            if letter:
                value = _add(value, small[point])
                inside = True
                seen += 1
            elif inside:
                languages = _look_up(keys, masks, value)
                for lang in range(len(hits)):
                    hits[lang] += languages >> np.uint32(lang) & np.uint32(1)
                counts[0] += 1
                size += 1
                inside, value = False, np.uint64(0xCBF29CE484222325)
            if stop > at:
                at = stop
                continue
            if 0 < kind < 16:
                counts[kind] += 1
                seen += 1
                size += 1.0 if kind <= 3 else 1 / _EACH
            if at == end or (point == 10 and size >= _PIECE):
                unknown = _close(weights[document], unknown, counts, hits, totals[document])
                size = 0.0
            at += 1
        unknowns[document], letters[document] = unknown, seen


def measure(points: Points, starts: Integers) -> Prose:
    """Measure the prose of documents, given as `Batch.points` and `Batch.starts`."""
    count = len(starts) - 1
    found = Prose(np.zeros((count, len(SCRIPTS) + len(LATIN))), np.zeros(count), np.zeros((count, len(LATIN))),
                  np.zeros(count))
    _measure(points, starts, (_classes(), small_letters(), *_listed()), found)
    return found
