"""A test of reading: the prompt states the answer, then asks for it."""

from dataclasses import replace
from random import Random

from evals.question import CUE, SEPARATOR, Draft
from evals.variants import NotApplicable, Variant, options_refer_to_options


class Reading(Variant):
    """States the question with the text of its right answer (no letter), then asks it.

    What is left to do is to read and to find the option, so everyone who can follow the prompt gets it right;
    put other labels and another order after it (`[reading, {permuted: {k: 1}}, labels]`) and a memorised
    letter is wrong although the answer stands there."""

    name = "reading"
    draws = False
    knowledge = False  # the answer is told: this is reading

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if options_refer_to_options(draft.own_choices) or draft.origin[draft.gold] < 0:
            raise NotApplicable("its right answer means nothing without the other options")
        taught = f"{draft.question}{CUE[draft.lang]}{SEPARATOR[draft.lang]}{draft.choices[draft.gold]}\n\n"
        return [replace(draft, preamble=draft.preamble + taught)]
