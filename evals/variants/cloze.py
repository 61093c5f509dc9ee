"""Options out of sight: the question alone, and the options' texts are scored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from evals.other_options import added_about_others, refers_to_options
from evals.question import Draft, Rendered
from evals.variants.registry import NotApplicable


@dataclass(frozen=True)
class Cloze:
    """The cloze form (CF of OLMES, Gu et al. 2024; the GPT-3 paper's): fair to base models, which do not yet
    know what a letter stands for. Items whose question or options speak of "the following" are left out, but not
    with `every: true` (lm-eval's arc and openbookqa ask them too)."""

    name: ClassVar[str] = "cloze"
    draws: ClassVar[bool] = False
    every: bool = False

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """The same question in another form."""
        if not self.every and refers_to_options(draft.question, draft.own_choices):
            raise NotApplicable("speaks of the other options, which a cloze question does not show")
        if added_about_others(draft.choices, draft.origin):
            raise NotApplicable("an added option speaks of the others, which a cloze question does not show")
        return [replace(draft, form=cloze_form)]


def cloze_form(draft: Draft) -> Rendered:
    """The question and the cue."""
    return Rendered(draft.layout.before + draft.question + draft.cue, draft.choices, False)
