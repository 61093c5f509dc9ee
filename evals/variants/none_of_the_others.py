"""One option dropped, and "none of the others" added."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from evals.none_option import check, exchange
from evals.question import Draft

NONE = {"en": "None of the others", "zh": "其他答案全错"}


@dataclass(frozen=True)
class NoneOfTheOthers:
    """A last option "none of the others", right or wrong.

    drop="right": the right option is gone, so the last one is right: what was memorised is not there.
    drop="wrong": the control: a wrong one is gone, the answer stays what it was. A model that always says "none"
    gains on the first what it loses on this one.
    drop="either": the right one with probability 1 / options, so that no fixed answer is better than chance.
    Questions for the best of the options shown are left out: without it another one is.
    (Compare WiCkeD, Elhady et al. 2025, which is the control and the other mixed.)
    """

    name: ClassVar[str] = "none_of_the_others"
    knowledge: ClassVar[bool] = False  # always "none" is right on one of it and its control: they are read together
    drop: str = "right"

    def __post_init__(self) -> None:
        if self.drop not in ("right", "wrong", "either"):
            raise ValueError(f"drop is {self.drop!r}; allowed: right, wrong, either")

    @property
    def as_shot(self) -> NoneOfTheOthers:
        """Examples in which "none" is always right, or never, would tell the answer."""
        return NoneOfTheOthers("either")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft with one option fewer and the last one new."""
        check(draft)
        right = self.drop == "right" or (self.drop == "either" and rng.random() < 1 / len(draft.choices))
        wrong = [index for index in range(len(draft.choices)) if index != draft.gold]
        return [exchange(draft, draft.gold if right else rng.choice(wrong), NONE[draft.lang])]
