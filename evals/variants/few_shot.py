"""Worked examples before the question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.question import Draft


@dataclass(frozen=True)
class FewShot:
    """`n` items with their answers before the question, the same for all items of a language and subject.

    They come from the task's `shots`, else from its items; never the item itself, one of its cluster or of the same
    question. They go through the chain's other variants, so that forms agree. `choose`: `balanced` (drawn by the
    seed, the right option at each place equally often) or `first` (the first `n` as they stand: lm-eval's MMLU).
    """

    name: ClassVar[str] = "few_shot"
    draws: ClassVar[bool] = False
    open: ClassVar[bool] = True
    several: ClassVar[bool] = True
    own_form: ClassVar[bool] = True
    n: int = 5
    choose: str = "balanced"

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n < 0:
            raise ValueError(f"n is {self.n!r}; allowed: 0 or a number of examples")
        if self.choose not in ("balanced", "first"):
            raise ValueError(f"choose is {self.choose!r}; allowed: balanced, first")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft, with how many examples it gets when it is rendered (evals/shots.py)."""
        return [replace(draft, shots=self.n, shots_choose=self.choose)]
