"""Worked examples before the question."""

from dataclasses import replace
from random import Random
from typing import Literal

from pydantic import Field

from evals.question import Draft
from evals.variants import Variant


class FewShot(Variant):
    """`n` items with their answers before the question, the same for all items of a language and subject.

    They come from the task's `shots`, else from its items; never the item itself, one of its cluster or one that shows
    its answer (evals.items.Identity). The chain's other variants change them too. `choose`: `balanced` (drawn by the
    seed, the right option at each place equally often) or `first` (the first `n` as they stand: lm-eval's MMLU)."""

    name = "few_shot"
    draws = False
    open = True
    several = True
    harness_form = True
    n: int = Field(5, ge=0)
    choose: Literal["balanced", "first"] = "balanced"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Set the number of examples that the draft gets when it is rendered."""
        return [replace(draft, few_shot=self.n, few_shot_choose=self.choose)]
