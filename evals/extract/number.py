"""The first number of a short answer."""

from __future__ import annotations

from typing import ClassVar

from evals.extract.last_number import NUMBER, LastNumber, plain


class Number(LastNumber):
    """The first number: "18 eggs, not 20" is 18. For answers without a worked solution."""

    name: ClassVar[str] = "number"

    def extract(self, text: str, labels: str) -> str | None:
        """A number without separators and units, or None."""
        found = NUMBER.search(text)
        return plain(found.group()) if found else None

    def closing(self, answer: str, lang: str) -> str:
        """The number."""
        return answer
