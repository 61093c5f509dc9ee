"""Line rules of C4: lines that end as sentences do, with words enough and no phrase of a site; the third longest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from argosy.core.lazy import Flags, Integers, Points
from argosy.corpus.cleaning.kernels.characters import BREAK, DIGIT, HAN_LETTER, SPACE, STOP, flags, small_letters
from argosy.corpus.cleaning.kernels.types import BOOL, BOOLS, BYTES, INT, INTS, POINTS, named, written

if TYPE_CHECKING:
    import numpy.typing as npt

_NEWLINE, _RETURN, _DOT, _OPEN, _CLOSE, _CURLY = 10, 13, ord("."), ord("["), ord("]"), ord("{")
_CLOSING, _MARKS = "\"')]»”’）】」』》", "[edit][citation needed]"
_CLOSES, _ENDS = 1, 4  # beside the flags of characters that are used here: stands after a sentence; ends a line
_WIDE = 0x3000  # from here on, no space follows the end of a sentence


class Lines(NamedTuple):
    """Spans that are left of documents, and counts of what their lines hold.

    Attributes:
        points: code points of the lines that stay, a newline between two of a document, (characters,), uint32.
        starts: where each document begins in `points`, (documents + 1,), int64.
        counts: lines, lines that stay, sentences of these, lines with the first phrase, lines with a curly bracket,
            (documents, 5), int64."""

    points: Points
    starts: Integers
    counts: Integers


class Rules(NamedTuple):
    """Rules of lines, in the form that the loops take.

    Attributes:
        kinds: flags of each code point, with `_CLOSES` and `_ENDS`.
        small: small letter of each code point.
        marks: marks of citations, end to end.
        letters, offsets: phrases, end to end, and where each begins.
        fewest, longest: fewest words of a line, most characters of a word.
        any_end: whether a line may end in anything."""

    kinds: "npt.NDArray[np.integer[Any]]"
    small: Points
    marks: Points
    letters: Points
    offsets: Integers
    fewest: int
    longest: int
    any_end: bool


RULES = named(Rules, *map(written, (BYTES, POINTS, POINTS, POINTS, INTS)), INT, INT, BOOL)


def kept_lines(points: Points, starts: Integers, han: Flags, ends: str, phrases: Sequence[str],
               limits: tuple[int, int]) -> Lines:
    """Keep the lines (as str.splitlines) that follow the rules, without the marks of citations.

    Args:
        han: of each document, whether two Han characters are a word, (documents,).
        ends: characters of which a line ends in one, though not in three dots; "": a line may end in any.
        phrases: in small letters; a line that holds one goes.
        limits: fewest words of a line, most characters of a word (without spaces)."""
    coded = [np.array([ord(letter) for letter in phrase], np.uint32) for phrase in phrases]
    offsets = np.cumsum([0, *map(len, coded)], dtype=np.int64)
    letters = np.concatenate([np.zeros(0, np.uint32), *coded])
    marks = np.array(list(map(ord, _MARKS)), np.uint32)
    kinds = flags() & (BREAK | DIGIT | HAN_LETTER | SPACE | STOP)
    kinds[list(map(ord, _CLOSING))] |= _CLOSES
    kinds[list(map(ord, ends))] |= _ENDS
    return Lines(*_kept(points, starts, han, Rules(kinds, small_letters(), marks, letters, offsets, *limits, not ends)))


@njit((POINTS, RULES, BOOL), cache=True)
def _worded(line, rules, han):  # type: ignore[no-untyped-def]
    """Tell whether a line has words enough, none of them too long; `han`: whether two Han characters are a word."""
    words, size, letters = 0, 0, 0
    for point in line:
        kind = rules.kinds[point]
        if kind & SPACE or (han and kind & HAN_LETTER):
            letters += (kind & HAN_LETTER) != 0
            size = 0
            continue
        words += size == 0
        size += 1
        if size > rules.longest:
            return False
    return words + letters // 2 >= rules.fewest


@njit((POINTS, INT, BYTES, POINTS), cache=True)
def _citation(line, at, kinds, marks):  # type: ignore[no-untyped-def]
    """Return where the mark of a citation that begins at `at` ends; `at`: none does."""
    last, end = len(line), at + 1
    while end < last and kinds[line[end]] & DIGIT:
        end += 1
    if end < last and line[end] == _CLOSE:
        return end + 1
    begin = 0
    for stop in range(len(marks)):
        if marks[stop] == _CLOSE:
            same = begin
            while same <= stop and at + same - begin < last and line[at + same - begin] == marks[same]:
                same += 1
            if same > stop:
                return at + same - begin
            begin = stop + 1
    return at


@njit((POINTS, RULES, written(POINTS), INT, BOOL), cache=True)
def _copied(line, rules, out, size, stripped):  # type: ignore[no-untyped-def]
    """Copy a line without its citations to `out`, from `size` on; return its end there.

    stripped: whether white space before its first word is left out."""
    at = 0
    while at < len(line):
        if line[at] == _OPEN:
            after = _citation(line, at, rules.kinds, rules.marks)
            if after > at:
                at = after
                continue
        if not (stripped and rules.kinds[line[at]] & SPACE):
            out[size], stripped = line[at], False
            size += 1
        at += 1
    return size


@njit((POINTS, INT, INT, RULES), cache=True)
def _holds(out, begin, end, rules):  # type: ignore[no-untyped-def]
    """Return the first phrase that a line holds (none: how many there are), and whether it has a curly bracket."""
    small, letters, offsets = rules.small, rules.letters, rules.offsets
    found, curly = len(offsets), False
    for at in range(begin, end):
        point = small[out[at]]
        curly |= point == _CURLY
        for phrase in range(min(found, len(offsets) - 1)):
            size = offsets[phrase + 1] - offsets[phrase]
            if letters[offsets[phrase]] != point or at + size > end:
                continue
            same = 1
            while same < size and small[out[at + same]] == letters[offsets[phrase] + same]:
                same += 1
            if same == size:
                found = min(found, phrase)
    return found, curly


@njit((POINTS, INT, INT, BYTES), cache=True)
def _sentences(out, begin, end, kinds):  # type: ignore[no-untyped-def]
    """Count the sentences of a line."""
    count, rest, at = 0, False, begin
    while at < end:
        if not kinds[out[at]] & STOP:
            rest |= not kinds[out[at]] & SPACE
            at += 1
            continue
        wide = False
        while at < end and kinds[out[at]] & STOP:
            wide |= out[at] >= _WIDE
            at += 1
        while at < end and kinds[out[at]] & _CLOSES:
            at += 1
        rest = not (wide or at == end or kinds[out[at]] & SPACE)
        count += not rest
    return count + rest


@njit((POINTS, INTS, BOOLS, RULES), cache=True)
def _kept(points, starts, han, rules):  # type: ignore[no-untyped-def]
    """Return the code points of the lines that stay, where each document begins in them, and the counts of `Lines`."""
    kinds, any_end, phrases = rules.kinds, rules.any_end, len(rules.offsets)
    out, size = np.empty(len(points) + 1, np.uint32), 0
    offset = np.zeros(len(starts), np.int64)
    counts = np.zeros((len(starts) - 1, 5), np.int64)
    for document in range(len(starts) - 1):
        at, end, begin = starts[document], starts[document + 1], size
        while at < end:
            stop = at
            while stop < end and not kinds[points[stop]] & BREAK:
                stop += 1
            counts[document, 0] += 1
            first, last = at, stop
            while first < last and kinds[points[first]] & SPACE:
                first += 1
            while last > first and kinds[points[last - 1]] & SPACE:
                last -= 1
            at = stop + 1
            if at < end and points[stop] == _RETURN and points[at] == _NEWLINE:
                at += 1
            if not _worded(points[first:last], rules, han[document]):
                continue
            line = size + (size > begin)
            # A citation may stand before the first word of the text, and a space between them.
            done = _copied(points[first:last], rules, out, line, size == begin)
            if done == line or not (any_end or kinds[out[done - 1]] & _ENDS):
                continue
            if not any_end and done - line > 2 and out[done - 1] == out[done - 2] == out[done - 3] == _DOT:
                continue
            found, curly = _holds(out, line, done, rules)
            counts[document, 3] += found == 0
            if found < phrases:
                continue
            counts[document, 4] += curly
            counts[document, 2] += _sentences(out, line, done, kinds)
            counts[document, 1] += 1
            if line > size:
                out[size] = _NEWLINE
            size = done
        offset[document + 1] = size
    return out[:size].copy(), offset, counts


def third_longest(points: Points, starts: Integers) -> Integers:
    """Return the characters of the third longest line of each document, 0 where it has fewer: (documents,), int64."""
    return _third_longest(points, starts)


@njit((POINTS, INTS), cache=True)
def _third_longest(points, starts):  # type: ignore[no-untyped-def]
    """Return the characters of each document's third longest line."""
    found = np.zeros(len(starts) - 1, np.int64)
    for document in range(len(starts) - 1):
        one, two, three, begin = 0, 0, 0, starts[document]
        for at in range(starts[document], starts[document + 1] + 1):
            if at < starts[document + 1] and points[at] != _NEWLINE:
                continue
            size, begin = at - begin, at + 1
            if size > one:
                one, two, three = size, one, two
            elif size > two:
                two, three = size, two
            elif size > three:
                three = size
        found[document] = three
    return found
