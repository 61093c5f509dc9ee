"""Repair of text that was UTF-8 and was read in another encoding.

The idea is ftfy's (Speer, https://github.com/rspeer/python-ftfy): bytes that are valid UTF-8 are so by design
and hardly by chance. A line's runs of characters that are UTF-8 sequences in some one-byte encoding are decoded
if there is evidence in the line: several sequences, punctuation (â€™), or a symbol within a word (RÄ«ga)."""

import re
from dataclasses import dataclass
from functools import cache

ROUNDS = 3  # text can be misread more than once
_CODECS = ("cp1252", "cp1251", "cp1250", "macroman", "cp1257")
_ODD = re.compile(r"[^\x00-\x7f]")
_HAN_RUN = re.compile("[^\x00-\x7f]{4,}")
_REPLACED = re.compile("锟斤拷|烫烫烫|屯屯屯|ï¿½")
_C1 = {byte: bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in range(0x80, 0xA0)}
# ” ends in a byte that Windows-1252 lacks; à ends in a no-break space, which often has become a space.
_LOST_QUOTE = "â€\ufffd"
_LOST_GRAVE = re.compile("Ã (?=s )|Ã(?= )")


def repair(text: str) -> str:
    """Decode the mojibake in a text; the same object comes back where there is none."""
    if text.isascii():
        return text
    for _ in range(ROUNDS):
        lines = text.split("\n")
        repaired = "\n".join(line if line.isascii() else _repair_line(line) for line in lines)
        if repaired == text:
            break
        text = repaired
    # A lone control character of Latin-1 is a character of Windows-1252 (as in HTML 5).
    return text.translate(_C1)


def lost_characters(text: str) -> int:
    """Count the characters that a failed decoding leaves: U+FFFD, 锟斤拷 and their like."""
    return text.count("\ufffd") + 3 * len(_REPLACED.findall(text))


@dataclass(frozen=True)
class _Codec:
    """A one-byte encoding, as patterns of what UTF-8 looks like in it."""

    to_byte: dict[str, int]
    run: re.Pattern[str]  # one sequence after the other
    sequence: re.Pattern[str]
    punctuation: re.Pattern[str]  # U+2000 to U+2FFF, emoji, byte-order mark: hardly anything else has these bytes
    capital_a: re.Pattern[str]  # Â or Ã and a symbol: Western text misread, in Windows-1252 only
    in_word: re.Pattern[str]  # a pair whose second character is a symbol, before a small letter

    def covers(self, line: str) -> float:
        """Return the share of the characters beyond ASCII that are runs; 0.0 where nothing in the line is evidence."""
        runs = self.run.findall(line)
        return sum(map(len, runs)) / len(_ODD.findall(line)) if runs and self._convinces(line, runs) else 0.0

    def repair(self, line: str) -> str:
        """Decode the runs of the line."""
        return self.run.sub(self._decode, line)

    def _decode(self, match: re.Match[str]) -> str:
        raw = bytes(self.to_byte[character] for character in match.group())
        return re.sub("\ufffd+", "\ufffd", raw.decode(errors="replace"))

    def _convinces(self, line: str, runs: list[str]) -> bool:
        if any(pattern.search(line) for pattern in (self.punctuation, self.capital_a, self.in_word)):
            return True
        whole = sum(len(self.sequence.findall(run)) for run in runs)
        covered = sum(map(len, runs)) / len(_ODD.findall(line))
        return (whole >= 3 and covered > 0.5) or (whole == 2 and covered == 1 and sum(map(len, runs)) > 4)


@cache
def _codec(name: str) -> _Codec:
    to_byte = {bytes([byte]).decode(name, errors="ignore"): byte for byte in range(0x80, 0x100)}
    to_byte.pop("", None)
    for byte in range(0x80, 0xA0):  # bytes that the encoding lacks stay as control characters ("sloppy")
        to_byte.setdefault(chr(byte), byte)

    def group(first: int, last: int) -> str:
        return "[" + re.escape("".join(c for c, byte in to_byte.items() if first <= byte <= last)) + "]"

    tail = group(0x80, 0xBF)
    whole = f"{group(0xC2, 0xDF)}{tail}|{group(0xE0, 0xEF)}{tail}{{2}}|{group(0xF0, 0xF4)}{tail}{{3}}"
    lossy = f"{group(0xC2, 0xF4)}{tail}{{0,2}}\ufffd"
    symbols = "".join(c for c, byte in to_byte.items() if byte <= 0xBF and not c.isalpha() and c not in "’“”‘…–—\xa0")
    symbols = re.escape(symbols)
    western = f"[ÂÃ][{symbols}]|Ã[ƒŠŒŽšœžŸªµº]" if name == "cp1252" else "(?!)"
    return _Codec(
        to_byte=to_byte | {"\ufffd": 0xFF},
        run=re.compile(f"(?:{whole}|{lossy})+"),
        sequence=re.compile(whole),
        punctuation=re.compile(
            f"{group(0xE2, 0xE2)}{group(0x80, 0x9F)}{tail}|{group(0xF0, 0xF0)}{tail}{{3}}|ï[»¼¿]{tail}"
        ),
        capital_a=re.compile(western),
        in_word=re.compile(f"{group(0xC3, 0xC5)}[{symbols}][a-z]" if name in ("cp1252", "cp1250") else "(?!)"),
    )


def _repair_line(line: str) -> str:
    if len(_ODD.findall(line)) < 2:
        return line
    bare = line.replace(_LOST_QUOTE, "”")
    shares = {name: _codec(name).covers(bare) for name in _CODECS}
    best = max(_CODECS, key=lambda name: shares[name])  # the first of equals
    if not shares[best]:
        return _HAN_RUN.sub(_from_gb, bare)
    fixed = _codec(best).repair(bare)
    return _LOST_GRAVE.sub("à", fixed) if best == "cp1252" else fixed


def _from_gb(match: re.Match[str]) -> str:
    """Decode UTF-8 that was read as GBK: it looks like rare characters; real Chinese in GBK is no valid UTF-8."""
    try:
        return match.group().encode("gb18030").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return match.group()
