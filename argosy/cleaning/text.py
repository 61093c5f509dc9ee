"""What several filters ask of a text: which script it is in, its words, its normal form."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN = re.compile(f"[{HAN}]")
_LETTERS = re.compile(r"[^\W\d_]")
_WORDS = re.compile(rf"[{HAN}]|[^\W{HAN}]+")
_NOT_WORD = re.compile(r"[\W_]+")


def han_share(text: str) -> float:
    """Share of letters that are Han characters; 0.0 for a text without letters."""
    han = len(_HAN.findall(text))
    return han / len(_LETTERS.findall(text)) if han else 0.0


# Filters ask one after the other about the same text: the last answer is kept.
@lru_cache(maxsize=1)
def is_han(text: str) -> bool:
    """Whether to count this text in characters, as Chinese is, and not in words between spaces.

    Half as many Han characters as other letters is enough: a Han character is about a word.
    """
    return han_share(text) > 0.3


@lru_cache(maxsize=1)
def words(text: str) -> tuple[str, ...]:
    """Lower-case words; each Han character is a word of its own."""
    return tuple(_WORDS.findall(text.lower()))


def normalise(text: str) -> str:
    """Text without what differs between copies: case, width, punctuation and space (NFKC, casefold)."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
