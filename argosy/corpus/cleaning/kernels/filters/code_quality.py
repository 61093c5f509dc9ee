"""Source files: length of lines, letters and digits, text that stands for bytes."""

import numpy as np
from numba import njit

from argosy.core.lazy import Integers, Points
from argosy.corpus.cleaning.kernels.characters import ALPHABETIC, BREAK, DIGIT, SPACE, WORD, flags
from argosy.corpus.cleaning.kernels.types import BYTES, INTS, POINTS

_NEWLINE, _RETURN, _UNDERSCORE = 10, 13, ord("_")
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n"
_ENCODED, _RUN = 2, 64


def source_counts(points: Points, starts: Integers) -> Integers:
    """Count lines (as str.splitlines), characters of them, those of the longest; letters and digits, letters, digits,
    visible characters; characters of the longest run of base64 and of all its runs of 64 characters or more, newlines
    among them, that have a digit: (documents, 9), int64."""
    kinds = flags() & (ALPHABETIC | BREAK | DIGIT | SPACE | WORD)
    kinds[list(map(ord, _BASE64))] |= _ENCODED
    return _source_counts(points, starts, kinds)


@njit((POINTS, INTS, BYTES), cache=True)
def _source_counts(points, starts, kinds):  # type: ignore[no-untyped-def]
    """Count the lines and characters of source files."""
    counts = np.zeros((len(starts) - 1, 9), np.int64)
    for document in range(len(starts) - 1):
        begin = first = starts[document]
        numbered = False
        for at in range(starts[document], starts[document + 1] + 1):
            over = at == starts[document + 1]
            kind = np.uint8(BREAK) if over else kinds[points[at]]
            if over or not kind & _ENCODED:
                if numbered and at - first >= _RUN:
                    counts[document, 7] = max(counts[document, 7], at - first)
                    counts[document, 8] += at - first
                first, numbered = at + 1, False
            else:
                numbered |= (kind & DIGIT) != 0
            if kind & BREAK:
                # The second sign of a line's end of two ends no line, nor does the end of the text after one.
                pair = not over and at > starts[document] and points[at] == _NEWLINE and points[at - 1] == _RETURN
                if not pair and (not over or at > begin):
                    counts[document, 0] += 1
                    counts[document, 1] += at - begin
                    counts[document, 2] = max(counts[document, 2], at - begin)
                begin = at + 1
            counts[document, 3] += (kind & WORD) != 0 and points[at] != _UNDERSCORE
            counts[document, 4] += (kind & ALPHABETIC) != 0
            counts[document, 5] += (kind & DIGIT) != 0
            counts[document, 6] += not kind & (SPACE | BREAK)
    return counts
