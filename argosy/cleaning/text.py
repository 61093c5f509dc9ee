"""What several filters ask of a text: which script it is in, its words, its normal form."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN_RUNS = re.compile(f"[{HAN}]+")
_WORDS = re.compile(rf"[{HAN}]|[^\W{HAN}]+")
_NOT_WORD = re.compile(r"[\W_]+")


def han_share(text: str) -> float:
    """Share of words that are Han characters; 0.0 for a text without words."""
    if text.isascii():
        return 0.0
    found = words(text)
    return sum(map(len, _HAN_RUNS.findall(text))) / len(found) if found else 0.0


# Filters ask one after the other about the same text: the last answer is kept.
@lru_cache(maxsize=1)
def is_han(text: str) -> bool:
    """Whether to count this text in characters, as Chinese is, and not in words between spaces.

    A third is enough: Chinese about programs has much that is not.
    """
    return han_share(text) > 0.3


@lru_cache(maxsize=1)
def words(text: str) -> tuple[str, ...]:
    """Lower-case words; each Han character is a word of its own."""
    return tuple(_WORDS.findall(text.lower()))


def normalise(text: str) -> str:
    """Text without what differs between copies: case, width, punctuation and space (NFKC, casefold)."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
