"""Fences of the compiled loops, and plain Python that says what they compute."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from argosy.corpus.cleaning.kernels.dedup import hashing, near_dedup, substring_dedup
from argosy.corpus.cleaning.kernels.filters import pii
from argosy.corpus.cleaning.kernels.filters.c4_quality import third_longest
from argosy.corpus.cleaning.kernels.filters.decontamination import _align
from argosy.corpus.cleaning.kernels.filters.fineweb_quality import line_counts
from argosy.corpus.cleaning.kernels.filters.gopher_repetition import duplicate, top
from argosy.corpus.cleaning.kernels.words import Words, words

ALPHABET = "ab1 .,\n甲乙。\t"


def documents() -> list[str]:
    rng = random.Random(5)
    texts = ["".join(rng.choices(ALPHABET, k=rng.randrange(60))) for _ in range(200)]
    return [*texts, "", "\n", "a", *("".join(rng.choices("ab \n", k=300)) for _ in range(20))]


TEXTS = documents()
POINTS = np.frombuffer("".join(TEXTS).encode("utf-32-le"), np.uint32)
STARTS = np.cumsum([0, *map(len, TEXTS)], dtype=np.int64)


@pytest.fixture(scope="module")
def found() -> Words:
    return words(POINTS, STARTS)


def each(found: Words) -> Iterator[tuple[list[int], list[int]]]:
    """Hashes and lengths of the words of each document."""
    for low, high in zip(found.first[:-1], found.first[1:], strict=True):
        yield found.hashes[low:high].tolist(), found.lengths[low:high].tolist()


def plain_top(hashes: Sequence[int], lengths: Sequence[int], n: int, spaced: bool) -> int:
    grams = [tuple(hashes[at : at + n]) for at in range(len(hashes) - n + 1)]
    if not grams or (times := Counter(grams).most_common(1)[0][1]) < 2:
        return 0
    at = next(at for at, gram in enumerate(grams) if grams.count(gram) == times)
    return times * (sum(lengths[at : at + n]) + (n - 1) * spaced)


def plain_duplicate(hashes: Sequence[int], lengths: Sequence[int], n: int) -> int:
    seen: set[tuple[int, ...]] = set()
    at = total = 0
    while at <= len(hashes) - n:
        gram = tuple(hashes[at : at + n])
        if gram in seen:
            total, at = total + sum(lengths[at : at + n]), at + n
        else:
            seen.add(gram)
            at += 1
    return total


@pytest.mark.parametrize("n", [2, 3, 5])
def test_repeated_ngrams(found: Words, n: int) -> None:
    sizes, spaced = np.full(len(TEXTS), n), np.arange(len(TEXTS)) % 2 == 0
    assert top(found, sizes, spaced).tolist() == [plain_top(*parts, n, bool(flag)) for parts, flag in
                                                  zip(each(found), spaced, strict=True)]  # fmt: skip
    assert duplicate(found, sizes).tolist() == [plain_duplicate(*parts, n) for parts in each(found)]


def plain_lines(text: str, short: int) -> list[int]:
    lines = text.split("\n")
    full = [line for line in lines if line.strip()]
    copies = [line for at, line in enumerate(full) if line in full[:at]]
    return [len(full), sum(line[-1] in ".。" for line in full), sum(len(line) <= short for line in full),
            sum(map(len, copies)), len(lines) - 1]  # fmt: skip


def test_lines() -> None:
    ends = np.zeros(0x110000, np.bool_)
    ends[[ord("."), ord("。")]] = True
    short = np.arange(len(TEXTS)) % 9
    assert line_counts(POINTS, STARTS, ends, short).tolist() == [
        plain_lines(text, int(most)) for text, most in zip(TEXTS, short, strict=True)]  # fmt: skip
    longest = [sorted(map(len, text.split("\n")), reverse=True) for text in TEXTS]
    assert third_longest(POINTS, STARTS).tolist() == [[*sizes, 0, 0][2] for sizes in longest]


def plain_edits(pattern: Sequence[int], text: Sequence[int]) -> int:
    """The least edit distance of a piece of `text` from `pattern` (Sellers 1980)."""
    costs = list(range(len(pattern) + 1))
    best = costs[-1]
    for sign in text:
        before, costs = costs, [0]
        for row, wanted in enumerate(pattern):
            costs.append(min(before[row] + (wanted != sign), before[row + 1] + 1, costs[row] + 1))
        best = min(best, costs[-1])
    return best


def test_alignment() -> None:
    rng = random.Random(3)
    for _ in range(200):
        pattern, text = (rng.choices(range(4), k=rng.randrange(1, 12)) for _ in range(2))
        edits, begin, end = _align(np.array(pattern, np.uint64), np.array(text, np.uint64), 0, len(text))
        assert edits == plain_edits(pattern, text)
        assert plain_edits(pattern, text[begin:end]) == edits


def plain_jaccard(one: set[int], two: set[int]) -> float:
    return len(one & two) / len(one | two)


def test_likeness_of_sketches_that_hold_all_and_sets_that_are_joined() -> None:
    from argosy.corpus.cleaning.kernels.dedup.near_dedup import begin, jaccard, join, members

    rng = random.Random(4)
    for _ in range(100):
        one, two = (sorted(rng.sample(range(30), rng.randrange(1, 20))) for _ in range(2))
        values = np.array([*one, *two], np.uint32)
        assert jaccard(values, 0, len(one), len(one), len(values), 30) == plain_jaccard(set(one), set(two))
    parents: Any = np.empty(6, np.int64)
    begin(parents)
    for pair in ((4, 2), (5, 4), (1, 3)):
        join(parents, *pair)
    assert [part.tolist() for part in members(parents)] == [[1, 2, 3, 4, 5], [1, 2, 1, 2, 2]]


BITS = 2**64 - 1


def plain_mix(value: int) -> int:
    """The finaliser of MurmurHash3 (Appleby 2011), fmix64."""
    for factor in (hashing._M1, hashing._M2):
        value = (value ^ value >> int(hashing._SHIFT)) * int(factor) & BITS
    return value ^ value >> int(hashing._SHIFT)


def plain_shingle(words: Sequence[int]) -> int:
    value = len(words)
    for word in words:
        value = (value ^ word) * int(near_dedup._FACTOR) & BITS
        value ^= value >> int(near_dedup._SHIFT)
    return plain_mix(value) >> 32


def test_minhash(found: Words) -> None:
    """A signature has the least hash under each permutation, a band's key its rows, the sketch the least hashes."""
    size, bands, rows, sketch = 3, 4, 2, 5
    signs = near_dedup.minhash(found.hashes, found.first, size, bands, rows, sketch)
    permutations = list(zip(*(part.tolist() for part in near_dedup.permutations(bands * rows)), strict=True))
    at = 0
    for number, keys in enumerate(signs.bands.tolist()):
        words = found.hashes[found.first[number] : found.first[number + 1]].tolist()
        shingles = {plain_shingle(words[begin : begin + size]) for begin in range(len(words) - size + 1)}
        assert signs.sketches[at : at + signs.counts[number]].tolist() == sorted(shingles)[:sketch]
        at += signs.counts[number]
        if shingles:
            least = [min((shingle * a + b) % 2**32 for shingle in shingles) for a, b in permutations]
            plain = [plain_mix(band + 1) for band in range(bands)]
            for place, value in enumerate(least):
                plain[place // rows] = plain_mix(plain[place // rows] ^ value)
            assert keys == plain
    assert at == len(signs.sketches) > 0


def plain_fingerprints(points: Sequence[int], length: int) -> list[int]:
    """Hash every run of half a window; each window keeps its least hash, the first of equals, once for each place."""
    half, base = length // 2, int(substring_dedup._BASE)
    runs = [0] * max(len(points) - half + 1, 0)
    for at in range(len(runs)):
        for point in points[at : at + half]:
            runs[at] = (runs[at] * base + plain_mix(point + 1)) & BITS
        runs[at] = plain_mix(runs[at])
    windows = range(len(points) - length + 1)
    places = [min(range(begin, begin + length - half + 1), key=lambda at: runs[at]) for begin in windows]
    return [runs[place] for number, place in enumerate(places) if number == 0 or place != places[number - 1]]


@pytest.mark.parametrize("length", [6, 9])
def test_winnowing(length: int) -> None:
    """Equal windows have the same fingerprint at the same place (Schleimer et al. 2003)."""
    found, counts = substring_dedup.fingerprints(POINTS, STARTS, length)
    plain = [plain_fingerprints(POINTS[begin:end].tolist(), length) for begin, end in pairwise(STARTS)]
    assert counts.tolist() == [len(each) for each in plain]
    assert found.tolist() == [fingerprint for each in plain for fingerprint in each]


def plain_places(text: str) -> Iterator[tuple[int, int, int]]:
    """Numbers of 7 digits, or of 4 with 3 dots; hexadecimal digits with 2 colons; @ within a text."""
    for run in re.finditer(r"[0-9][0-9 ()+.（）－-]*", text):
        digits = sum(sign in "0123456789" for sign in run[0])
        if digits >= 7 or (digits >= 4 and run[0].count(".") >= 3):
            yield run.start(), run.start() + len(run[0].rstrip(" ()+.（）－-")), pii.NUMBER
    for run in re.finditer(r"[0-9a-fA-F]+(?::[0-9a-fA-F:.]*)?|:[0-9a-fA-F:.]*", text):
        if run[0].count(":") >= 2 and len(re.sub("[:.]", "", run[0])) >= 4:
            yield run.start(), run.end(), pii.COLONS
    yield from ((at, at + 1, pii.AT) for at, sign in enumerate(text) if sign == "@" and 0 < at < len(text) - 1)


def test_places_of_personal_data() -> None:
    rng = random.Random(6)
    texts = ["".join(rng.choices("0123456789 ()+-.（）－:afAFg@甲\n", [3] * 10 + [1] * 18, k=60)) for _ in range(300)]
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    found = pii.find(np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32), starts)
    plain = {(start + begin, start + end, kind) for start, text in zip(starts.tolist(), texts, strict=False)
             for begin, end, kind in plain_places(text)}  # fmt: skip
    assert {*map(tuple, found.tolist())} == plain
    assert {kind for _, _, kind in plain} == {pii.AT, pii.NUMBER, pii.COLONS}
