"""An option dropped, and one added that refuses those shown."""

from dataclasses import replace
from random import Random
from typing import Literal

from evals.question import Draft
from evals.variants import NotApplicable, Variant, all_named, right_among_others


def check(draft: Draft) -> None:
    """Refuse items whose right answer cannot be known without one of the options (NotApplicable)."""
    if -1 in draft.origin:
        raise NotApplicable("has a none-option already")
    if all_named(draft.question, draft.choices):
        raise NotApplicable("its question names all the options")
    if right_among_others(draft.question):
        raise NotApplicable("its right answer is the best of those shown")


def exchange(draft: Draft, dropped: int, none: str, *, in_place: bool = False) -> Draft:
    """Drop an option and add `none`, which is right where the dropped one was, as the last one or `in_place` of it."""
    order = [place for place in range(len(draft.choices)) if place != dropped]
    order.insert(dropped if in_place else len(order), dropped)
    return replace(
        draft, choices=tuple(none if place == dropped else draft.choices[place] for place in order),
        origin=tuple(-1 if place == dropped else draft.origin[place] for place in order), gold=order.index(draft.gold))


NONE = {"en": "None of the others", "zh": "其他答案全错"}


class NoneOfTheOthers(Variant):
    """An option "none of the others", right or wrong.

    drop="right": the right option is gone, so the last one is right: the memorised answer is not there.
    drop="wrong": the control: a wrong one is gone, the answer stays what it was. A model that always says "none"
    gains on the first what it loses on this one.
    drop="either": the right one with probability 1 / options, so that no fixed answer is better than chance.
    place="last": it stands after the others; "own": where the dropped one stood, so that the right letter stays.
    Questions for the best of the options shown are left out: without it another one is.
    (Compare WiCkeD, Elhady et al. 2025, which is the control and the other mixed.)"""

    name = "none_of_the_others"
    independent = True
    knowledge = False  # always "none" is right on one of it and its control: they are read together
    drop: Literal["right", "wrong", "either"] = "right"
    place: Literal["last", "own"] = "last"

    @property
    def directed(self) -> bool:
        """Only with `either`: a model that always says "none" gains on one half what it loses on the other."""
        return self.drop == "either"

    @property
    def as_example(self) -> "NoneOfTheOthers":
        """Return one with `either`: examples in which "none" is always right, or never, would tell the answer."""
        return NoneOfTheOthers(drop="either", place=self.place)

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        check(draft)
        right = self.drop == "right" or (self.drop == "either" and rng.random() < 1 / len(draft.choices))
        wrong = [index for index in range(len(draft.choices)) if index != draft.gold]
        dropped = draft.gold if right else rng.choice(wrong)
        return [exchange(draft, dropped, NONE[draft.lang], in_place=self.place == "own")]


NONE_ABOVE = {"en": "None of the above", "zh": "以上都不对"}


class Wicked(Variant):
    """WiCkeD (Elhady et al., 2025): one option, each as likely, makes room for a last "None of the above".

    So that is right with probability 1 / options, and a model has to know that the others are wrong. Questions whose
    right answer is the best of those shown are left out; their authors let them stand unchanged."""

    name = "wicked"
    independent = True
    knowledge = False  # as none_of_the_others: it asks to refuse options too

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        check(draft)
        return [exchange(draft, rng.randrange(len(draft.choices)), NONE_ABOVE[draft.lang])]
