"""Words of documents with their hashes, and the hash of a piece of a document."""

from typing import NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Hashes, Integers, Integers32, Points
from argosy.corpus.cleaning.kernels.characters import ALPHABETIC, HAN_LETTER, SPACE, WORD, flags, small_letters
from argosy.corpus.cleaning.kernels.types import BOOLS, BYTES, INT, INTS, POINTS

_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


class Words(NamedTuple):
    """Words of a batch, as `argosy.corpus.text.scripts.words`: runs of word characters, each Han character by itself.

    Attributes:
        hashes: of each word in small letters, (words,), uint64.
        lengths: in characters, (words,), int32.
        lettered: whether it has a letter, (words,), bool.
        han: whether it is a Han character, (words,), bool.
        first: number of the first word of each document, (documents + 1,), int64."""

    hashes: Hashes
    lengths: Integers32
    lettered: Flags
    han: Flags
    first: Integers


def words(points: Points, starts: Integers, signs: Flags | None = None) -> Words:
    """Find the words of a batch (`Batch.points`, `Batch.starts`).

    signs: whether a run of signs is a word of a document too, (documents,); none: of no document."""
    marked = np.zeros(len(starts) - 1, np.bool_) if signs is None else signs
    return Words(*_words(points, starts, marked, flags(), small_letters()))


@njit((POINTS, INTS, BOOLS, BYTES, POINTS), cache=True)
def _words(points, starts, signs, kinds, small):  # type: ignore[no-untyped-def]
    """Return the arrays of `Words`."""
    most = len(points)
    hashes, lengths = np.empty(most, np.uint64), np.empty(most, np.int32)
    lettered, han = np.zeros(most, np.bool_), np.zeros(most, np.bool_)
    first = np.zeros(len(starts), np.int64)
    count = 0
    for document in range(len(starts) - 1):
        at, end = starts[document], starts[document + 1]
        while at < end:
            kind = kinds[points[at]]
            if kind & HAN_LETTER:
                value = np.uint64(points[at]) * _FACTOR
                hashes[count], lengths[count] = value ^ (value >> _HALF), 1
                lettered[count] = han[count] = True
                count += 1
                at += 1
            elif kind & WORD:
                begin, value, letters = at, np.uint64(0), False
                while at < end and kinds[points[at]] & WORD and not kinds[points[at]] & HAN_LETTER:
                    value = (value ^ np.uint64(small[points[at]])) * _FACTOR
                    value ^= value >> _HALF
                    letters |= (kinds[points[at]] & ALPHABETIC) != 0
                    at += 1
                hashes[count], lengths[count], lettered[count] = value, at - begin, letters
                count += 1
            elif signs[document] and not kind & SPACE:
                begin, value = at, np.uint64(0)
                while at < end and not kinds[points[at]] & (WORD | SPACE):
                    value = (value ^ np.uint64(points[at])) * _FACTOR
                    value ^= value >> _HALF
                    at += 1
                hashes[count], lengths[count] = value, at - begin
                count += 1
            else:
                at += 1
        first[document + 1] = count
    return hashes[:count].copy(), lengths[:count].copy(), lettered[:count].copy(), han[:count].copy(), first


@njit((POINTS, INT, INT), cache=True)
def hash_piece(points, begin, end):  # type: ignore[no-untyped-def]
    """Hash a piece of text as it is: 64 bits, of which no document has enough pieces for two to meet by chance."""
    value = np.uint64(end - begin)
    for at in range(begin, end):
        value = (value ^ np.uint64(points[at])) * _FACTOR
        value ^= value >> _HALF
    return value
