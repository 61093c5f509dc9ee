"""The published form, unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from evals.question import Draft


@dataclass(frozen=True)
class Plain:
    """Question, options behind A, B, C, D, and the letter is scored (MCF): what is compared with published numbers.

    An item without options is asked, and its answer generated (evals/generative.py). One of a task of lm-eval is asked
    as that task does.
    """

    name: ClassVar[str] = "plain"
    draws: ClassVar[bool] = False
    open: ClassVar[bool] = True
    several: ClassVar[bool] = True
    own_form: ClassVar[bool] = True

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft as it is."""
        return [draft]
