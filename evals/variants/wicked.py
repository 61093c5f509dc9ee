"""One option replaced by "none of the above"."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from evals.none_option import check, exchange
from evals.question import Draft

NONE_ABOVE = {"en": "None of the above", "zh": "以上都不对"}


@dataclass(frozen=True)
class Wicked:
    """WiCkeD (Elhady et al., 2025): one option, each as likely, makes room for a last "None of the above".

    So that is right with probability 1 / options, and a model has to know that the others are wrong. Questions whose
    right answer is the best of those shown are left out; their authors let them stand unchanged.
    """

    name: ClassVar[str] = "wicked"
    knowledge: ClassVar[bool] = False  # as none_of_the_others: to refuse options is asked too

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The draft with one option fewer and the last one new."""
        check(draft)
        return [exchange(draft, rng.randrange(len(draft.choices)), NONE_ABOVE[draft.lang])]
