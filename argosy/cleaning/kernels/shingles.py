"""MinHash of documents (Broder 1997): hashes of their shingles of words, band keys, and the least hashes as a sketch.

Words are those of `argosy.text.scripts.words`: lower case, a Han character is one. A shingle's hash has 32 bits, and
each permutation is x * a + b modulo 2^32 with odd a, a bijection; a processor does sixteen of them at once."""

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from argosy.cleaning.kernels.hashing import mix
from argosy.text.scripts import HAN, words

if TYPE_CHECKING:
    import numpy.typing as npt

    Points = npt.NDArray[np.uint32]
    Integers = npt.NDArray[np.int64]

_LETTERS_END = 0x34000  # no letter of Unicode is beyond it
_NONE, _HAN, _WORD, _HARD = 0, 1, 2, 3
_SEED = 20_121  # of the permutations: fixed, so that signatures are the same everywhere
_MOST = np.uint32(0xFFFFFFFF)
_FACTOR, _ROTATED = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_BITS = np.uint64(32)


class Alphabet(NamedTuple):
    """What each code point is in a text of words, (0x110000,) each: its kind, and its small letter."""

    kinds: "npt.NDArray[np.uint8]"
    small: "Points"


@cache
def alphabet() -> Alphabet:
    """Make the tables. Letters whose small letter depends on their neighbours, or is several, are `_HARD`."""
    kinds, small = np.zeros(0x110000, np.uint8), np.arange(0x110000, dtype=np.uint32)
    codes = [*range(0xD800), *range(0xE000, _LETTERS_END)]
    text = "".join(map(chr, codes))
    kinds[[ord(found) for found in re.findall(r"\w", text)]] = _WORD
    kinds[[ord(found) for found in re.findall(f"[{HAN}]", text)]] = _HAN
    kinds[_LETTERS_END:0x40000] = _HAN
    for code in codes:
        if (lower := chr(code).lower()) != chr(code):
            small[code], hard = ord(lower[0]), len(lower) > 1 or lower == "σ"
            kinds[code] = _HARD if hard else kinds[code]
    return Alphabet(kinds, small)


@cache
def permutations(count: int) -> tuple["Points", "Points"]:
    """Draw the factors, which are odd, and the summands of `count` permutations of 32 bits, (count,) each."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    factors, summands = random.integers(0, 2**32, size=(count, 2), dtype=np.uint32).T
    return np.ascontiguousarray(factors | np.uint32(1)), np.ascontiguousarray(summands)


@njit(cache=True)
def _word_hashes(points, begin, end, kinds, small, hashes):  # type: ignore[no-untyped-def]
    """Write the hash of each word; return their number, or -1 where a letter is hard."""
    count, value, inside = 0, np.uint64(0), False
    for at in range(begin, end):
        kind = kinds[points[at]]
        if kind == _WORD:
            value = (value ^ np.uint64(small[points[at]])) * _FACTOR
            value ^= value >> _BITS
            inside = True
            continue
        if kind == _HARD:
            return -1
        if inside:
            hashes[count] = value
            count, value, inside = count + 1, np.uint64(0), False
        if kind == _HAN:
            hashes[count] = np.uint64(points[at]) * _FACTOR
            hashes[count] ^= hashes[count] >> _BITS
            count += 1
    if inside:
        hashes[count] = value
        count += 1
    return count


@njit(cache=True)
def _shingles(hashes, count, size, out):  # type: ignore[no-untyped-def]
    """Write the 32-bit hash of each shingle of `size` words; return their number."""
    for at in range(count - size + 1):
        value = np.uint64(size)
        for word in range(at, at + size):
            value = (value ^ hashes[word]) * _FACTOR
            value ^= value >> _ROTATED
        out[at] = np.uint32(mix(value) >> _BITS)
    return max(count - size + 1, 0)


@njit(cache=True)
def _sign(shingles, count, factors, summands, least):  # type: ignore[no-untyped-def]
    least[:] = _MOST
    for at in range(count):
        shingle = shingles[at]
        for each in range(len(factors)):
            value = np.uint32(shingle * factors[each] + summands[each])
            least[each] = min(least[each], value)


@njit(cache=True)
def _band_keys(least, rows, keys):  # type: ignore[no-untyped-def]
    """Hash each band's rows with the band's number: keys of different bands never meet."""
    for band in range(len(keys)):
        value = mix(np.uint64(band + 1))
        for row in range(band * rows, band * rows + rows):
            value = mix(value ^ np.uint64(least[row]))
        keys[band] = value


@njit(cache=True)
def _distinct(values):  # type: ignore[no-untyped-def]
    values.sort()
    count = 0
    for at in range(len(values)):
        if count == 0 or values[at] != values[count - 1]:
            values[count] = values[at]
            count += 1
    return values[:count]


@njit(cache=True)
def _least(shingles, count, most):  # type: ignore[no-untyped-def]
    """Return the `most` least of the distinct hashes, in order: of many, those below a bound that fits are sorted."""
    share = (1.2 * most + 40) / count
    while share < 0.9:
        below = np.uint32(share * 0xFFFFFFFF)
        found = _distinct(shingles[:count][shingles[:count] < below])
        if len(found) >= most:
            return found[:most]
        share *= 2
    return _distinct(shingles[:count].copy())[:most]


@njit(cache=True)
def _minhash(points, starts, kinds, small, size, factors, summands, rows, sketch):  # type: ignore[no-untyped-def]
    documents = len(starts) - 1
    bands = np.zeros((documents, len(factors) // rows), np.uint64)
    counts = np.zeros(documents, np.int64)
    kept = np.empty(1024, np.uint32)
    longest = 0
    for document in range(documents):
        longest = max(longest, starts[document + 1] - starts[document])
    hashes, shingles = np.empty(longest + 1, np.uint64), np.empty(longest + 1, np.uint32)
    least = np.empty(len(factors), np.uint32)
    total = 0
    for document in range(documents):
        number = _word_hashes(points, starts[document], starts[document + 1], kinds, small, hashes)
        count = min(number, 0) if number < 0 else _shingles(hashes, number, size, shingles)
        if count <= 0:
            counts[document] = count
            continue
        _sign(shingles, count, factors, summands, least)
        _band_keys(least, rows, bands[document])
        found = _least(shingles, count, sketch) if sketch > 0 else shingles[:1]
        while total + len(found) > len(kept):
            kept = np.concatenate((kept, np.empty_like(kept)))
        kept[total : total + len(found)] = found
        total += len(found)
        counts[document] = len(found)
    return bands, counts, kept[:total]


class MinHash(NamedTuple):
    """What near copies of documents are recognised by.

    Attributes:
        bands: a hash of each band of the signature, (documents, bands), uint64.
        counts: size of each document's sketch, (documents,), int64; 0 for one that has no shingle.
        sketches: least hashes of the shingles in order, document after document, (sum of counts,), uint32."""

    bands: "npt.NDArray[np.uint64]"
    counts: "Integers"
    sketches: "Points"


def minhash(points: "Points", starts: "Integers", size: int, bands: int, rows: int, sketch: int) -> MinHash:
    """Compute the MinHash of documents (`Batch.points`, `Batch.starts`) with shingles of `size` words.

    sketch: hashes that a document keeps at most; 0: one, which says only that it has any."""
    tables, drawn = alphabet(), permutations(bands * rows)
    found = MinHash(*_minhash(points, starts, *tables, size, *drawn, rows, sketch))
    hard = np.flatnonzero(found.counts < 0)
    if not len(hard):
        return found
    # Sigma and capital I with a dot: Python itself makes them small.
    texts = [" ".join(words(_text(points[starts[at] : starts[at + 1]]))) for at in hard.tolist()]
    lengths = np.cumsum([0, *map(len, texts)])
    coded = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return _merged(found, hard, MinHash(*_minhash(coded, lengths, *tables, size, *drawn, rows, sketch)))


def _text(points: "Points") -> str:
    return points.tobytes().decode("utf-32-le", "surrogatepass")


def _merged(found: MinHash, places: "Integers", other: MinHash) -> MinHash:
    """Put `other` in the places of documents that `found` has not."""
    counts = np.maximum(found.counts, 0)
    at = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])[places]
    sketches = np.insert(found.sketches, np.repeat(at, other.counts), other.sketches)
    counts[places], found.bands[places] = other.counts, other.bands
    return MinHash(found.bands, counts, sketches)
