"""Words of texts as hashes, and lookup of n-grams of them: exact, or within some edits of a known sequence.

Words are compared without case, width (NFKC) and script (traditional or simplified); each Han character is a word, and
a question mark is one too. The hash of an n-gram is polynomial in its words' (Karp and Rabin 1987), so that each size
costs one subtraction a place."""

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Hashes, Integers, Points
from argosy.corpus.cleaning.kernels import types
from argosy.corpus.cleaning.kernels.types import named, written
from argosy.corpus.text.scripts import simplified

_NONE, _LETTER, _HAN, _ASKS = range(4)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MOST_TRIES = 50  # places of a text at which a target is aligned
_FILTER_WORDS = 8  # n-grams by 64 bits of the filter at which most n-grams of clean texts end


@cache
def _canonical() -> Points:
    """Return of each code point the one that stands for it in comparisons, and above 24 bits what it is part of."""
    table = np.zeros(0x110000, np.uint32)
    simple = simplified()
    for code in (*range(0x30000), *range(0x30000, 0x31350)):
        if 0xD800 <= code < 0xE000:
            continue
        plain = unicodedata.normalize("NFKC", chr(code)).lower()
        plain = simple.get(ord(plain), plain) if len(plain) == 1 else chr(code)
        point = ord(plain)
        han = 0x3400 <= point < 0x4DC0 or 0x4E00 <= point < 0xA000 or 0xF900 <= point < 0xFB00 or point >= 0x20000
        kind = _HAN if han else _LETTER if plain.isalnum() or plain == "_" else _ASKS if plain == "?" else _NONE
        table[code] = point | kind << 24
    return table


class Words(NamedTuple):
    """Words of some texts, end to end.

    Attributes:
        hashes: (words,), uint64.
        starts: where each begins in the texts' code points, (words,).
        han: whether each is a Han character, (words,), bool.
        asks: whether each is a question mark, (words,), bool.
        first: number of the first word of each text, (texts + 1,).
        prefix: polynomial hash of all words before each, (words + 1,)."""

    hashes: Hashes
    starts: Integers
    han: Flags
    asks: Flags
    first: Integers
    prefix: Hashes


WORDS = named(Words, *map(written, (types.HASHES, types.INTS, types.BOOLS, types.BOOLS, types.INTS, types.HASHES)))


@njit(cache=True, inline="always")
def _mix(value):  # type: ignore[no-untyped-def]
    """Mix 64 bits (SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * _M1
    value = (value ^ (value >> np.uint64(27))) * _M2
    return value ^ (value >> np.uint64(31))


@njit((types.POINTS, types.INTS, types.POINTS), cache=True)
def _split(points, starts, table):  # type: ignore[no-untyped-def]
    """Return hashes, places and kinds of words, each text's first word, and the hash of all words before each."""
    size = len(points)
    hashes, places, kinds = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.uint8)
    first, prefix = np.zeros(len(starts), np.int64), np.empty(size + 1, np.uint64)
    count = 0
    for text in range(len(starts) - 1):
        first[text] = count
        open_word, value = False, np.uint64(0)
        for at in range(starts[text], starts[text + 1] + 1):
            entry = table[points[at]] if at < starts[text + 1] else np.uint32(0)
            kind, point = entry >> 24, np.uint64(entry & 0xFFFFFF)
            if open_word and kind != 1:
                hashes[count] = _mix(value)
                count += 1
                open_word = False
            if kind == 1:
                if not open_word:
                    places[count], kinds[count] = at, 1
                    open_word, value = True, np.uint64(1)
                value = value * _BASE + point
            elif kind > 1:
                hashes[count] = _mix(_BASE + point)
                places[count], kinds[count] = at, kind
                count += 1
    first[len(starts) - 1] = count
    prefix[0] = 0
    for word in range(count):
        prefix[word + 1] = prefix[word] * _BASE + hashes[word]
    return hashes[:count], places[:count], kinds[:count], first, prefix[: count + 1]


def split(points: Points, starts: Integers) -> Words:
    """Split texts, given as `Batch.points` and `Batch.starts`, into words."""
    hashes, places, kinds, first, prefix = _split(points, starts, _canonical())
    return Words(hashes, places, kinds == _HAN, kinds == _ASKS, first, prefix)


@njit((types.HASHES, types.INT, types.INT, types.WORD64), cache=True)
def _gram(prefix, at, size, power):  # type: ignore[no-untyped-def]
    """Return the hash of the n-gram of `size` words at `at`."""
    return _mix(prefix[at + size] - prefix[at] * power + np.uint64(size))


def powers(sizes: Integers) -> Hashes:
    """Return what a prefix is multiplied by to take it off an n-gram of each size, uint64."""
    return np.array([pow(int(_BASE), int(size), 1 << 64) for size in sizes], np.uint64)


@njit((types.HASHES, types.INTS, types.INTS, types.HASHES), cache=True)
def grams(prefix, at, sizes, factors):  # type: ignore[no-untyped-def]
    """Return the hash of the n-gram of `sizes[i]` words at `at[i]`; `factors` are `powers(sizes)`."""
    found = np.empty(len(at), np.uint64)
    for i in range(len(at)):
        found[i] = _gram(prefix, at[i], sizes[i], factors[i])
    return found


@njit(cache=True, inline="always")
def _mask(value):  # type: ignore[no-untyped-def]
    """Return three bits of a word that a hash sets in the filter (a blocked Bloom filter, Putze et al. 2009)."""
    one, sixty_three = np.uint64(1), np.uint64(63)
    return (one << (value & sixty_three)) | (one << (value >> np.uint64(6) & sixty_three)) | (
        one << (value >> np.uint64(12) & sixty_three))


@njit((types.HASHES,), cache=True)
def bloom(known):  # type: ignore[no-untyped-def]
    """Return a filter of hashes, a power of two of uint64: what is not in it is in none."""
    size = 1
    while size * _FILTER_WORDS < len(known):
        size *= 2
    words = np.zeros(size, np.uint64)
    for value in known:
        words[(value >> np.uint64(20)) & np.uint64(size - 1)] |= _mask(value)
    return words


@njit((WORDS, types.INTS, types.HASHES, types.INTS, types.HASHES, types.HASHES), cache=True)
def lookup(words, sizes, factors, of_han, known, known_bloom):  # type: ignore[no-untyped-def]
    """Return (place, number in `known`) of each n-gram of a size of `sizes` that is in `known`, sorted and unique.

    Sizes with `of_han` 1 are of n-grams that begin with a Han character, with 0 of others, with -1 of both.
    `known_bloom` is `bloom(known)`."""
    prefix, first, han = words.prefix, words.first, words.han
    found = np.empty((1024, 2), np.int64)
    count, last = 0, np.uint64(len(known_bloom) - 1)
    for text in range(len(first) - 1):
        for at in range(first[text], first[text + 1]):
            for which in range(len(sizes)):
                if at + sizes[which] > first[text + 1] or of_han[which] + han[at] == 1:
                    continue
                value = _gram(prefix, at, sizes[which], factors[which])
                mask = _mask(value)
                if known_bloom[(value >> np.uint64(20)) & last] & mask != mask:
                    continue
                place = np.searchsorted(known, value)
                if place == len(known) or known[place] != value:
                    continue
                if count == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[count, 0], found[count, 1] = at, place
                count += 1
    return found[:count]


@njit((types.HASHES, types.HASHES, types.INT, types.INT), cache=True)
def _align(pattern, text, begin, end):  # type: ignore[no-untyped-def]
    """Find the least edit distance of `pattern` from a piece of `text[begin:end]` (Sellers 1980): it, begin, end."""
    size = len(pattern)
    costs, origins = np.arange(size + 1), np.full(size + 1, begin)
    best, best_begin, best_end = size, begin, begin
    for at in range(begin, end):
        diagonal, origin = costs[0], origins[0]
        costs[0], origins[0] = 0, at + 1
        for row in range(1, size + 1):
            cost, source = diagonal + (pattern[row - 1] != text[at]), origin
            diagonal, origin = costs[row], origins[row]
            if costs[row] + 1 < cost:
                cost, source = costs[row] + 1, origins[row]
            if costs[row - 1] + 1 < cost:
                cost, source = costs[row - 1] + 1, origins[row - 1]
            costs[row], origins[row] = cost, source
        if costs[size] < best:
            best, best_begin, best_end = costs[size], origins[size], at + 1
    return best, best_begin, best_end


@njit((types.INT_ROWS, types.INT), cache=True)
def _group_end(shared, at):  # type: ignore[no-untyped-def]
    """Return where the shared n-grams of another text or target begin."""
    end = at
    while end < len(shared) and shared[end, 0] == shared[at, 0] and shared[end, 1] == shared[at, 1]:
        end += 1
    return end


@njit((types.INT_ROWS, types.INT, types.INT, types.INT), cache=True)
def _among(rows, edits, begin, end):  # type: ignore[no-untyped-def]
    """Tell whether a piece of a text is among the rows."""
    for row in rows:  # noqa: SIM110 (compiled)
        if row[2] == edits and row[3] == begin and row[4] == end:
            return True
    return False


@njit((types.INT_ROWS, WORDS, WORDS, types.INTS, types.FLOAT), cache=True)
def verify(shared, words, targets, least, similarity):  # type: ignore[no-untyped-def]
    """Align targets with the texts that share n-grams with them.

    Args:
        shared: text, target, and where in the text's words the target would begin, of each shared n-gram, (n-grams, 3);
            ordered by text, target, and where to look first.
        words, targets: words of the texts and of the targets (`Words`).
        least: shared n-grams that a target must have to be aligned, by target.
        similarity: least share of a target's words that are left as they are.

    Returns:
        Rows of text, target, edits, begin and end in the texts' words: each piece of a text that is like a target."""
    found, first = np.empty((256, 5), np.int64), words.first
    count = at = 0
    while at < len(shared):
        end = _group_end(shared, at)
        text, target = shared[at, 0], shared[at, 1]
        pattern = targets.hashes[targets.first[target] : targets.first[target + 1]]
        slack = max(2, len(pattern) // 5)
        last, tries, own = -1, 0, count
        for hit in range(at, end if end - at >= least[target] else at):
            start = shared[hit, 2]
            if (tries and abs(start - last) <= slack // 2) or tries == _MOST_TRIES:
                continue
            last, tries = start, tries + 1
            low, high = max(first[text], start - slack), min(first[text + 1], start + len(pattern) + slack)
            edits, one, two = _align(pattern, words.hashes, low, high)
            if edits > (1 - similarity) * len(pattern) + 1e-9 or _among(found[own:count], edits, one, two):
                continue
            if count == len(found):
                found = np.concatenate((found, np.empty_like(found)))
            found[count] = np.array((text, target, edits, one, two))
            count += 1
        at = end
    return found[:count]


@njit((types.INTS, types.COLUMN, types.INTS, WORDS, WORDS), cache=True)
def same(places, numbers, texts, words, targets):  # type: ignore[no-untyped-def]
    """Tell whether the target of each number stands at its place in a text word by word."""
    bounds = targets.first
    found = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        begin, size = bounds[numbers[i]], bounds[numbers[i] + 1] - bounds[numbers[i]]
        if places[i] + size <= words.first[texts[i] + 1]:
            found[i] = True
            for offset in range(size):
                if words.hashes[places[i] + offset] != targets.hashes[begin + offset]:
                    found[i] = False
                    break
    return found
