"""The whole answer, as exact match compares it."""

from __future__ import annotations

import re
import unicodedata
from typing import ClassVar

from evals.extract.last_number import NUMBER, plain

_MARKS = " \t\n.,;:!?\"'“”‘’*$。，；：！？、"
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)


class Exact:
    """The first line, lower case, without an article before it and marks around it (SQuAD's normalisation)."""

    name: ClassVar[str] = "exact"

    def extract(self, text: str, labels: str) -> str | None:
        """The first line that has something, or None."""
        lines = [line for line in text.splitlines() if line.strip(_MARKS)]
        return canonical(lines[0]) if lines else None

    def canonical(self, answer: str) -> str:
        """See the class."""
        return canonical(answer)

    def closing(self, answer: str, lang: str) -> str:
        """The answer itself."""
        return answer


def canonical(answer: str) -> str:
    """See Exact; full-width characters are as others."""
    bare = _ARTICLE.sub("", unicodedata.normalize("NFKC", answer).strip(_MARKS))
    return plain(bare) if NUMBER.fullmatch(bare) else " ".join(bare.casefold().split())
