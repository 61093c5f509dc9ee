"""What a solution puts into a box."""

from __future__ import annotations

from typing import ClassVar

from evals.extract.last_number import NUMBER, plain

_MARKS = ("\\boxed{", "\\fbox{")


class Boxed:
    """The contents of the last `\\boxed{...}` (MATH's form), braces within it counted; a number without separators."""

    name: ClassVar[str] = "boxed"

    def extract(self, text: str, labels: str) -> str | None:
        """The contents, or None where there is no box or it is not closed."""
        start, mark = max((text.rfind(mark), mark) for mark in _MARKS)
        if start < 0:
            return None
        start += len(mark)
        depth = 1
        for end in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                return self.canonical(text[start:end])
        return None

    def canonical(self, answer: str) -> str:
        """Without spaces and dollar signs; numbers as `last_number` has them."""
        bare = "".join(answer.split()).strip("$").removesuffix(".")
        return plain(bare) if NUMBER.fullmatch(bare) else bare

    def closing(self, answer: str, lang: str) -> str:
        """The box."""
        return f"$\\boxed{{{answer}}}$"
