"""A look at every character for what repair is about: clean documents never reach Python character by character.

What is suspicious: two characters side by side that are a lead and a continuation byte of UTF-8 in one of the encodings
that text is misread in, a run that is UTF-8 read as GBK, control and invisible characters, entities, and what the form
NFC may change. More is suspected than is wrong: repair decides."""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from argosy.core.lazy import Bytes, Floats, Integers, Points
from argosy.corpus.cleaning.kernels.types import INT, INTS, PAIRS, POINTS

if TYPE_CHECKING:
    import numpy.typing as npt

MOJIBAKE, UNCLEAN, DENORMAL, ENTITY = 1, 2, 4, 8
_CODECS = ("latin-1", "cp1252", "cp1251", "cp1250", "iso8859-2", "macroman", "cp437", "cp1253", "cp1254", "cp1257")
_CONTINUES = len(_CODECS)  # first bit of the continuation bytes; the lead bytes' are below
_BEFORE_SPACE, _UNCLEAN, _DENORMAL, _LOST, _PRIVATE, _SPACE, _C1 = (2 * len(_CODECS) + bit for bit in range(7))
_SPACED_LEADS = (0xC2, 0xC3, 0xC5, 0xCE, 0xD0, 0xD9, 0xE2, 0xE3)  # whose no-break space has become a space


@cache
def _flags() -> Points:
    """Return what each code point may be a sign of, (0x110000,), as bits."""
    flags = np.zeros(0x110000, np.uint32)
    for bit, codec in enumerate(_CODECS):
        for byte in range(0x80, 0xF5):
            for character in {bytes([byte]).decode(codec, "ignore"), chr(byte) if byte < 0xC0 else ""} - {""}:
                lead = byte >= 0xC2
                flags[ord(character)] |= 1 << (bit if lead else _CONTINUES + bit) if lead or byte < 0xC0 else 0
                if byte in _SPACED_LEADS and codec not in ("macroman", "cp437"):
                    flags[ord(character)] |= 1 << _BEFORE_SPACE
    for low, high in ((0, 0x8), (0xB, 0xC), (0xD, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x200B, 0x200B), (0x200E, 0x200F),
                      (0x2028, 0x202E), (0x2060, 0x2064), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB)):
        flags[low : high + 1] |= 1 << _UNCLEAN
    flags[0x80:0xA0] |= 1 << _C1
    flags[0xFFFD] |= 1 << _LOST
    flags[0xE000:0xF900] |= 1 << _PRIVATE
    for code in (*range(0x80, 0x20000), *range(0x2F800, 0x2FA20), *range(0xE0100, 0xE01F0)):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or 0xAC00 <= code < 0xD7A4:
            continue
        if character.isspace():
            flags[code] |= 1 << _SPACE
        if (unicodedata.category(character)[0] == "M" or 0x1100 <= code < 0x1200
                or unicodedata.normalize("NFC", character) != character):
            flags[code] |= 1 << _DENORMAL
    flags[[ord(character) for character in " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"]] |= 1 << _SPACE
    return flags


@cache
def _gb() -> "npt.NDArray[np.uint16]":
    """Return the two bytes of each character in GB 18030, (0x10000,), 0 where it has others."""
    codes = np.zeros(0x10000, np.uint16)
    for code in (*range(0x80, 0xD800), *range(0xE000, 0x10000)):
        raw = chr(code).encode("gb18030")
        if len(raw) == 2:
            codes[code] = raw[0] << 8 | raw[1]
    return codes


@njit((POINTS, INT, INT), cache=True)
def _entity(points: Points, at: int, end: int) -> bool:
    """Whether `&` at `at` may begin an entity: a letter or # and a semicolon soon."""
    if at + 1 >= end or not (points[at + 1] == 35 or 97 <= (points[at + 1] | 32) <= 122):
        return False
    for place in range(at + 2, min(at + 11, end)):  # noqa: SIM110 (compiled)
        if points[place] == 59:
            return True
    return False


@njit((INT, INT), cache=True)
def _advance(need: int, byte: int) -> int:
    """Take one byte of UTF-8: bytes that must follow, or -1 where it is none."""
    if need > 0:
        return need - 1 if 0x80 <= byte < 0xC0 else -1
    if 0xC2 <= byte < 0xE0:
        return 1
    if 0xE0 <= byte < 0xF0:
        return 2
    return 3 if 0xF0 <= byte < 0xF5 else -1


@njit((POINTS, INTS, POINTS, PAIRS), cache=True)
def _look(points, starts, flags, gb):  # type: ignore[no-untyped-def]
    """Return of each document the bits of what is suspicious, how many characters are lost, and how many visible."""
    kinds = np.zeros(len(starts) - 1, np.uint8)
    broken, visible = np.zeros(len(starts) - 1), np.zeros(len(starts) - 1)
    pairs = (1 << _CONTINUES) - 1
    for document in range(len(starts) - 1):
        end = starts[document + 1]
        kind, lost, seen = 0, 0, 0
        run, need = 0, 0  # characters beyond ASCII so far, and bytes that UTF-8 in GBK lacks; -1: it is none
        skip = starts[document]
        for at in range(starts[document], end):
            point = points[at]
            if point < 0x80:
                if run >= 4 and need == 0:
                    kind |= 1
                run, need = 0, 0
                if point == 38 and _entity(points, at, end):
                    kind |= 8
                if point < 32 or point == 127:
                    if flags[point] >> _UNCLEAN & 1:
                        kind |= 2
                    seen += not (9 <= point <= 13 or 28 <= point <= 31)
                else:
                    seen += point != 32
                continue
            run += 1
            if need >= 0:
                code = gb[point] if point < 0x10000 else 0
                need = _advance(need, code >> 8)
                if need >= 0:
                    need = _advance(need, code & 0xFF)
            flag = flags[point]
            seen += not (flag >> _SPACE & 1)
            if at + 1 < end:
                after = points[at + 1]
                if flag & pairs & (flags[after] >> _CONTINUES) or (after == 32 and flag >> _BEFORE_SPACE & 1):
                    kind |= 1
            if flag >> _UNCLEAN & 1:
                kind |= 2
            if flag >> _C1 & 1:
                kind |= 1
            if flag >> _DENORMAL & 1:
                kind |= 4
            if flag >> _LOST & 1:
                kind |= 1
                lost += 1
            lost += flag >> _PRIVATE & 1
            if at >= skip and at + 2 < end:
                one, two, three = point, points[at + 1], points[at + 2]
                if ((one == 0x951F and two == 0x65A4 and three == 0x62F7)
                        or (one == two == three and (one == 0x70EB or one == 0x5C6F))):
                    lost += 3
                    skip = at + 3
        if run >= 4 and need == 0:
            kind |= 1
        kinds[document], broken[document], visible[document] = kind, lost, seen
    return kinds, broken, visible


def look(points: Points, starts: Integers) -> tuple[Bytes, Floats, Floats]:
    """Return of each document (as `Batch.points` and `Batch.starts`) what is suspicious, as bits of MOJIBAKE, UNCLEAN,
    DENORMAL and ENTITY; how many characters are lost (three for 锟斤拷) or of private use; and how many are visible."""
    return _look(points, starts, _flags(), _gb())
