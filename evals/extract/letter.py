"""The label of one option."""

from __future__ import annotations

import re
from functools import cache
from typing import ClassVar

from evals.extract.labels import OPEN, STATED, label


class Letter:
    """"B", "B.", "(B) Paris", "The answer is B", "答案是B", "故选：B", "\\boxed{B}": a stated label (the last one)
    goes before the one that the text begins with, and that before the only one that stands alone in it."""

    name: ClassVar[str] = "letter"

    def extract(self, text: str, labels: str) -> str | None:
        """One of `labels`, or None."""
        stated, first, alone = _patterns(labels)
        if found := stated.findall(text):
            return str(found[-1])
        if begins := first.match(text):
            return str(begins.group(1))
        standing = set(alone.findall(text))
        return str(standing.pop()) if len(standing) == 1 else None

    def canonical(self, answer: str) -> str:
        """The label."""
        return answer.strip()

    def closing(self, answer: str, lang: str) -> str:
        """The label."""
        return answer


@cache
def _patterns(labels: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    after, alone = label(labels, alone=False), label(labels, alone=True)
    return re.compile(f"{STATED}{OPEN}({after})"), re.compile(f"{OPEN}({alone})"), re.compile(f"({alone})")
