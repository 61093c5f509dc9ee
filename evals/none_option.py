"""What variants share that drop an option and add a last one that refuses those shown."""

from __future__ import annotations

from dataclasses import replace

from evals.other_options import options_refer_to_options, right_among_others
from evals.question import Draft
from evals.variants.registry import NotApplicable


def check(draft: Draft) -> None:
    """See that the right answer can be known without one of the options.

    Raises:
        NotApplicable: it cannot.
    """
    if options_refer_to_options(draft.own_choices):
        raise NotApplicable("an option speaks of the other options")
    if -1 in draft.origin:
        raise NotApplicable("has a none-option already")
    if right_among_others(draft.question):
        raise NotApplicable("its right answer is the best of those shown")


def exchange(draft: Draft, dropped: int, none: str) -> Draft:
    """The draft without option `dropped` and with `none` as its last one, which is right where `dropped` was."""
    kept = [place for place in range(len(draft.choices)) if place != dropped]
    return replace(
        draft,
        choices=(*(draft.choices[place] for place in kept), none),
        origin=(*(draft.origin[place] for place in kept), -1),
        gold=len(kept) if dropped == draft.gold else kept.index(draft.gold),
    )
