"""MinHash of documents (Broder 1997): hashes of their shingles of words, band keys, and the least hashes as a sketch;
groups of documents of equal keys, and sets that are joined.

A shingle's hash has 32 bits, and each permutation is x * a + b modulo 2^32 with odd a, a bijection: a processor does
sixteen of them at once."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Hashes, Integers, Points
from argosy.corpus.cleaning.kernels.dedup.hashing import mix, sort
from argosy.corpus.cleaning.kernels.types import FLOAT, HASHES, INT, INTS, POINTS, WORD32, named, parts, written

_SEED = 20_121  # of the permutations: fixed, so that signatures are the same everywhere
_MOST = np.uint32(0xFFFFFFFF)
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_BITS = np.uint64(32)


@cache
def permutations(count: int) -> tuple[Points, Points]:
    """Draw the factors, which are odd, and the summands of `count` permutations of 32 bits, (count,) each."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    factors, summands = random.integers(0, 2**32, size=(count, 2), dtype=np.uint32).T
    return np.ascontiguousarray(factors | np.uint32(1)), np.ascontiguousarray(summands)


@njit((HASHES, INT, INT, INT, written(POINTS)), cache=True)
def _shingles(words, begin, end, size, out):  # type: ignore[no-untyped-def]
    """Write the 32-bit hash of each shingle of `size` words between two places; return their number."""
    for at in range(begin, end - size + 1):
        value = np.uint64(size)
        for word in range(at, at + size):
            value = (value ^ words[word]) * _FACTOR
            value ^= value >> _SHIFT
        out[at - begin] = np.uint32(mix(value) >> _BITS)
    return max(end - begin - size + 1, 0)


@njit((POINTS, INT, POINTS, POINTS, written(POINTS)), cache=True)
def _sign(shingles, count, factors, summands, least):  # type: ignore[no-untyped-def]
    """Write the least hash of each permutation of the shingles."""
    least[:] = _MOST
    for at in range(count):
        shingle = shingles[at]
        for each in range(len(factors)):
            value = np.uint32(shingle * factors[each] + summands[each])
            least[each] = min(least[each], value)


@njit((POINTS, INT, written(HASHES)), cache=True)
def _band_keys(least, rows, keys):  # type: ignore[no-untyped-def]
    """Hash each band's rows with the band's number: keys of different bands never meet."""
    for band in range(len(keys)):
        value = mix(np.uint64(band + 1))
        for row in range(band * rows, band * rows + rows):
            value = mix(value ^ np.uint64(least[row]))
        keys[band] = value


@njit((POINTS, INT, WORD32, written(POINTS)), cache=True)
def _below(shingles, count, bound, out):  # type: ignore[no-untyped-def]
    """Write the distinct hashes that are not above a bound, in order; return their number."""
    found = 0
    for at in range(count):
        out[found] = shingles[at]
        found += shingles[at] <= bound
    sort(out[:found])
    distinct = 0
    for at in range(found):
        if distinct == 0 or out[at] != out[distinct - 1]:
            out[distinct] = out[at]
            distinct += 1
    return distinct


@njit((POINTS, INT, INT, written(POINTS)), cache=True)
def _least(shingles, count, most, out):  # type: ignore[no-untyped-def]
    """Write the `most` least of the distinct hashes, in order; return their number. Of many hashes, only those below a
    bound that fits are sorted."""
    share = (1.2 * most + 40) / count
    while share < 0.9:
        found = _below(shingles, count, np.uint32(share * 0xFFFFFFFF), out)
        if found >= most:
            return most
        share *= 2
    return min(_below(shingles, count, _MOST, out), most)


@njit((HASHES, INTS, INT, parts(POINTS, POINTS), INT, INT), cache=True)
def _minhash(words, first, size, permuted, rows, sketch):  # type: ignore[no-untyped-def]
    """Return the band keys of documents, the sizes of their sketches and the sketches, end to end."""
    factors, summands = permuted
    documents = len(first) - 1
    bands = np.zeros((documents, len(factors) // rows), np.uint64)
    counts = np.zeros(documents, np.int64)
    longest, room = 0, 0
    for document in range(documents):
        count = max(first[document + 1] - first[document] - size + 1, 0)
        longest = max(longest, count)
        room += min(count, max(sketch, 1))
    shingles, found = np.empty(longest, np.uint32), np.empty(longest + 1, np.uint32)
    kept = np.empty(room, np.uint32)
    least = np.empty(len(factors), np.uint32)
    total = 0
    for document in range(documents):
        count = _shingles(words, first[document], first[document + 1], size, shingles)
        if count:
            _sign(shingles, count, factors, summands, least)
            _band_keys(least, rows, bands[document])
            counts[document] = _least(shingles, count, max(sketch, 1), found)
            for at in range(counts[document]):
                kept[total + at] = found[at]
            total += counts[document]
    return bands, counts, kept[:total].copy()


class MinHash(NamedTuple):
    """Keys by which near copies of documents are recognised.

    Attributes:
        bands: a hash of each band of the signature, (documents, bands), uint64.
        counts: size of each document's sketch, (documents,), int64; 0 for one that has no shingle.
        sketches: least hashes of the shingles in order, document after document, (sum of counts,), uint32."""

    bands: Hashes
    counts: Integers
    sketches: Points


def minhash(words: Hashes, first: Integers, size: int, bands: int, rows: int, sketch: int) -> MinHash:
    """Compute the MinHash of documents with shingles of `size` words.

    Args:
        words: hashes of the words, (words,).
        first: number of the first word of each document, (documents + 1,).
        sketch: hashes that a document keeps at most; 0: one, which says only that it has any."""
    return MinHash(*_minhash(words, first, size, permutations(bands * rows), rows, sketch))


@njit((HASHES, written(INTS)), cache=True)
def restore(keys, order):  # type: ignore[no-untyped-def]
    """Put places of equal keys in ascending order, in an order that sorts the keys but is not stable."""
    begin = 0
    for at in range(1, len(order) + 1):
        if at == len(order) or keys[order[at]] != keys[order[begin]]:
            if at - begin > 1:
                sort(order[begin:at])
            begin = at


@njit((written(INTS), INT), cache=True)
def root(parents, one):  # type: ignore[no-untyped-def]
    """Find the least document of the set of `one`, and shorten the way to it (union-find, Tarjan 1975)."""
    while parents[one] != one:
        parents[one] = parents[parents[one]]
        one = parents[one]
    return one


@njit((written(INTS), INT, INT), cache=True)
def join(parents, one, two):  # type: ignore[no-untyped-def]
    """Make one set of two: its root is its least document, whatever the order of joins."""
    one, two = root(parents, one), root(parents, two)
    if one < two:
        parents[two] = one
    else:
        parents[one] = two


@njit((written(INTS), INTS, INTS), cache=True)
def join_groups(parents, documents, starts):  # type: ignore[no-untyped-def]
    """Make one set of each group of documents, `documents[starts[i] : starts[i + 1]]`."""
    for group in range(len(starts) - 1):
        for at in range(starts[group] + 1, starts[group + 1]):
            join(parents, documents[starts[group]], documents[at])


@njit((POINTS, INT, INT, INT, INT, INT), cache=True)
def jaccard(values, one, one_end, two, two_end, most):  # type: ignore[no-untyped-def]
    """Estimate the Jaccard index of two sets by their least hashes, in order, of which at most `most` are looked at
    (bottom-k sketch, Broder 1997); of two sets with fewer hashes all, so that it is exact."""
    both, seen = 0, 0
    if one_end - one < most and two_end - two < most:
        most = 2 * most
    while seen < most and one < one_end and two < two_end:
        a, b = values[one], values[two]
        both += a == b
        one += a <= b
        two += b <= a
        seen += 1
    seen = min(most, seen + (one_end - one) + (two_end - two))
    return both / seen


class Sketched(NamedTuple):
    """Sketches of documents.

    Attributes:
        places: number of each document's sketch, `values[offsets[i] : offsets[i + 1]]`.
        most: hashes of a sketch that are looked at."""

    places: Integers
    values: Points
    offsets: Integers
    most: int


SKETCHED = named(Sketched, *map(written, (INTS, POINTS, INTS)), INT)


@njit((written(INTS), INTS, INTS, SKETCHED, FLOAT, INT), cache=True)
def join_alike(parents, documents, starts, sketched, least, compared):  # type: ignore[no-untyped-def]
    """Join documents of a group that are alike: each is compared with at most `compared` before it, of other sets.

    sketched: `Sketched` of the documents. least: the Jaccard index."""
    places, values, offsets, most = sketched
    for group in range(len(starts) - 1):
        for at in range(starts[group] + 1, starts[group + 1]):
            looks = 0
            for other in range(starts[group], at):
                if root(parents, documents[at]) == root(parents, documents[other]):
                    continue
                one, two = places[at], places[other]
                if jaccard(values, offsets[one], offsets[one + 1], offsets[two], offsets[two + 1], most) >= least:
                    join(parents, documents[at], documents[other])
                looks += 1
                if looks == compared:
                    break


@njit((written(INTS),), cache=True)
def begin(parents):  # type: ignore[no-untyped-def]
    """Make each document a set of its own."""
    for one in range(len(parents)):
        parents[one] = one


@njit((written(INTS),), cache=True)
def members(parents):  # type: ignore[no-untyped-def]
    """Return the documents of sets that have more than one, ascending, and the root of each."""
    several = np.zeros(len(parents), np.bool_)
    for one in range(len(parents)):
        parents[one] = root(parents, one)
        if parents[one] != one:
            several[one] = several[parents[one]] = True
    found = np.flatnonzero(several)
    return found, parents[found]


@njit((POINTS, INTS, INTS, written(POINTS), INT), cache=True)
def gather(values, begins, counts, out, at):  # type: ignore[no-untyped-def]
    """Copy pieces of `values` to `out` from `at` on."""
    for piece in range(len(begins)):
        out[at : at + counts[piece]] = values[begins[piece] : begins[piece] + counts[piece]]
        at += counts[piece]
