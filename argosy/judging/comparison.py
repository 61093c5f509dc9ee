"""Two answers to one prompt, as a judge sees them, and what a judge is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Comparison:
    """`first` stands before `second` in what the judge reads."""

    prompt: str
    first: str
    second: str


@dataclass(frozen=True)
class Preference:
    """Of one comparison: the probability (0 to 1) that the first answer is better, or why there is none, and whether
    that may pass (a server that was down)."""

    first: float | None
    reason: str = ""
    may_pass: bool = False


Save = Callable[[int, Preference], None]


class Judge(Protocol):
    """Says which answer is better. It sees a comparison alone, and no names."""

    @property
    def name(self) -> str:
        """For records."""

    def prefer(self, comparisons: Sequence[Comparison], save: Save) -> None:
        """Call `save(index, preference)` for every comparison, as soon as it is known, in any order.

        Raises:
            InputError: the judge cannot be asked at all (wrong key, no such model).
        """
