"""One option replaced by "none of the above"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.other_options import options_refer_to_options, right_among_others
from evals.question import Draft
from evals.variants.registry import NotApplicable

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
        if options_refer_to_options(draft.own_choices):
            raise NotApplicable("an option speaks of the other options")
        if -1 in draft.origin:
            raise NotApplicable("has a none-option already")
        if right_among_others(draft.question):
            raise NotApplicable("its right answer is the best of those shown")
        dropped = rng.randrange(len(draft.choices))
        kept = [place for place in range(len(draft.choices)) if place != dropped]
        return [
            replace(
                draft,
                choices=(*(draft.choices[place] for place in kept), NONE_ABOVE[draft.lang]),
                origin=(*(draft.origin[place] for place in kept), -1),
                gold=len(kept) if dropped == draft.gold else kept.index(draft.gold),
            )
        ]
