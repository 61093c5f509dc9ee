"""A model's preference for places, measured on some items and taken off all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.other_options import added_about_others, options_refer_to_options
from evals.question import Draft
from evals.variants.registry import NotApplicable


@dataclass(frozen=True)
class Pride:
    """PriDe (Zheng et al., "Large Language Models Are Not Robust Multiple Choice Selectors", 2024).

    A `share` of the items is also asked with its options moved on by one place, by two, and so on. From these the
    prior of each place is estimated without looking at right answers; `acc_pride` is right after dividing by it
    (evals/debiasing.py). `acc` is that of the published order: the moved ones are for calibration alone.
    """

    name: ClassVar[str] = "pride"
    share: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share!r}; allowed: above 0, at most 1")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft, and for a sampled item its cyclic orders."""
        if options_refer_to_options(draft.own_choices):
            raise NotApplicable("an option speaks of the other options")
        if added_about_others(draft.choices, draft.origin, above=True):
            raise NotApplicable("an added option speaks of those above it, and has to stay the last")
        if rng.random() >= self.share:
            return [draft]
        n = len(draft.choices)
        orders = [[*range(shift, n), *range(shift)] for shift in range(1, n)]
        return [draft, *(replace(draft.with_options(order), calibration=True) for order in orders)]
