"""The published form, unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from evals.question import Draft


@dataclass(frozen=True)
class Plain:
    """Question, options behind A, B, C, D, and the letter is scored: what is compared with published numbers."""

    name: ClassVar[str] = "plain"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft as it is."""
        return [draft]
