"""Tables of what each code point is, made from Python's own Unicode data."""

import re
from functools import cache

import numpy as np

from argosy.core.lazy import Bytes, Points
from argosy.corpus.text.scripts import HAN

WORD, HAN_LETTER, ALPHABETIC, SPACE, BREAK = 1, 2, 4, 8, 16  # [^\W]; Han; str.isalpha; str.isspace; ends a line
DIGIT, STOP = 32, 64  # \d; ends a sentence, in any script
_ASSIGNED = 0x34000  # no character beyond, private ones and tags aside, has any of these properties
_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # as str.splitlines


@cache
def flags() -> Bytes:
    """Return the properties of each code point, as a sum of the constants above: (0x110000,)."""
    import regex

    table = np.zeros(0x110000, np.uint8)
    codes = [*range(0xD800), *range(0xE000, _ASSIGNED)]
    text = "".join(map(chr, codes))
    for flag, pattern in ((WORD, r"\w"), (HAN_LETTER, f"[{HAN}]"), (SPACE, r"\s"), (BREAK, f"[{_BREAKS}]"),
                          (DIGIT, r"\d")):
        table[[ord(found) for found in re.findall(pattern, text)]] |= flag
    table[[code for code in codes if chr(code).isalpha()]] |= ALPHABETIC
    table[[ord(found) for found in regex.findall(r"\p{Sentence_Terminal}", text)]] |= STOP
    table[_ASSIGNED:0x40000] |= HAN_LETTER
    return table


@cache
def small_letters() -> Points:
    """Return the small letter of each code point, else itself: (0x110000,), uint32.

    Sigma and I with a dot, which Python makes small by their neighbours or as two letters, have their first form."""
    table = np.arange(0x110000, dtype=np.uint32)
    for code in range(0x1E944):  # no letter beyond has a small one
        small = chr(code).lower()
        if small and not 0xD800 <= code < 0xE000:
            table[code] = ord(small[0])
    return table
