"""Several right options: several questions with one right answer each."""

from dataclasses import replace
from random import Random
from typing import Literal

from evals.question import Draft
from evals.variants import NotApplicable, Variant

_ANSWERED = {"en": "Proposed answer: ", "zh": "有人选了："}
_ASKED = {
    "en": ("Is it a right answer to the question?", "Is it a wrong answer to the question?"),
    "zh": ("选对了吗？", "选错了吗？")}
YES_NO = {"en": ("Yes", "No"), "zh": ("是", "否")}


class SingleAnswers(Variant):
    """`mode: one_right`: for each right option a question with it and all wrong ones; an item with one right option
    stays as it is. `mode: statements`: for each option whether it is right, yes or no.

    Half of the statements are asked the other way ("is it wrong?"), so that yes is the answer to half of them and
    no fixed answer is better than chance. `acc_all` is right where all questions of an item are: the whole set."""

    name = "single_answers"
    independent = True
    several = True
    mode: Literal["one_right", "statements"] = "one_right"

    @property
    def knowledge(self) -> bool:  # type: ignore[override]  # a yes is guessed more easily than one option of several
        return self.mode != "statements"

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        if -1 in draft.origin:
            raise NotApplicable("has a none-option already")
        return self._statements(draft, rng) if self.mode == "statements" else self._one_right(draft)

    def _one_right(self, draft: Draft) -> list[Draft]:
        if len(draft.rights) == len(draft.choices):
            raise NotApplicable("all its options are right")
        made = []
        for right in draft.rights:
            kept = [place for place in range(len(draft.choices)) if place == right or place not in draft.rights]
            made.append(replace(draft, gold=right, golds=()).with_options(kept))
        return made

    def _statements(self, draft: Draft, rng: Random) -> list[Draft]:
        places = range(len(draft.choices))
        yes = set(rng.sample(places, len(places) // 2 + (len(places) % 2 and rng.randrange(2))))
        return [_statement(draft, place, is_yes=place in yes) for place in places]


def _statement(draft: Draft, place: int, *, is_yes: bool) -> Draft:
    right, wrong = _ASKED[draft.lang]
    is_right = place in draft.rights
    asked_right = is_right == is_yes
    text = f"{_ANSWERED[draft.lang]}{draft.choices[place]}\n{right if asked_right else wrong}"
    origin = draft.origin[place]
    return replace(draft, question=f"{draft.question}\n{text}", choices=YES_NO[draft.lang],
                   origin=(origin, -1) if asked_right else (-1, origin), gold=0 if is_yes else 1, golds=())
