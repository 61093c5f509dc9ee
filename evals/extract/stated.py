"""An answer that a sentence states."""

from __future__ import annotations

import re
from typing import ClassVar

from evals.extract.exact import canonical

_STATED = re.compile(
    r"(?i:\banswer\s*(?:is\s*[:：]?|[:：]))\s*([^\n]+?)(?=\.(?:\s|$)|\n|$)"
    r"|答案\s*(?:应?[是为][:：]?|[:：])\s*([^\n。]+)"
)


class Stated:
    """"... The answer is 42." and "……答案是42。": what the last such sentence says."""

    name: ClassVar[str] = "stated"

    def extract(self, text: str, labels: str) -> str | None:
        """The text, without marks around it, or None."""
        found = [english or chinese for english, chinese in _STATED.findall(text)]
        return (canonical(found[-1]) or None) if found else None

    def canonical(self, answer: str) -> str:
        """Lower case, without marks around it; numbers as `last_number` has them."""
        return canonical(answer)

    def closing(self, answer: str, lang: str) -> str:
        """The sentence."""
        return f"The answer is {answer}." if lang == "en" else f"答案是{answer}。"
