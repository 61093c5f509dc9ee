"""Repair of text that was read in another encoding than it was written in: by ftfy (Speer,
https://github.com/rspeer/python-ftfy), and what ftfy leaves of UTF-8 that was read as GBK or MacRoman."""

import re

_HAN_RUN = re.compile("[^\x00-\x7f]{4,}")
_REPLACED = re.compile("锟斤拷|烫烫烫|屯屯屯|ï¿½")
_LEAST_SEQUENCES = 3  # characters that a whole line of UTF-8 in MacRoman must be made of: it is not so by chance


def repair(text: str) -> str:
    """Decode the mojibake in a text, line by line; the same object comes back where there is none."""
    if text.isascii():
        return text
    lines = text.split("\n")
    repaired = [line if line.isascii() else _repair_line(line) for line in lines]
    return text if repaired == lines else "\n".join(repaired)


def lost_characters(text: str) -> int:
    """Count the characters that a failed decoding leaves: U+FFFD, 锟斤拷 and their like."""
    return text.count("\ufffd") + 3 * len(_REPLACED.findall(text))


def _repair_line(line: str) -> str:
    import ftfy

    fixed = ftfy.fix_encoding(line)
    return fixed if fixed != line else _from_macroman(_HAN_RUN.sub(_from_gb, line))


def _from_gb(match: re.Match[str]) -> str:
    """Decode UTF-8 that was read as GBK: it looks like rare characters; real Chinese in GBK is no valid UTF-8."""
    try:
        return match.group().encode("gb18030").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return match.group()


def _from_macroman(line: str) -> str:
    """Decode a line that is UTF-8 throughout when it is written in MacRoman."""
    try:
        decoded = line.encode("macroman").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return line
    return decoded if sum(not character.isascii() for character in decoded) >= _LEAST_SEQUENCES else line
