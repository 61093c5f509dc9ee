"""What a variant is, and the scan that finds them."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import ClassVar, Protocol

from argosy.plugins import classes
from evals.question import Draft


class NotApplicable(Exception):
    """A variant cannot be made of this item; the message is the reason that is counted."""


class Variant(Protocol):
    """Changes a draft. Deterministic: whatever is drawn comes from `rng`, which the seed and the item's id feed.

    A variant that has a class attribute `knowledge = False` asks for something else than what a model knows (to read
    an answer that is told, or to refuse options): the headline of a comparison leaves its questions out. One with
    `open = True` works on items without options too, one with `several = True` on items with several right options;
    others are not asked to. `own_form = True`: it lets an item of a task of lm-eval be asked as that task does.
    `draws = False`: it takes nothing from `rng`. `as_shot`: what is applied instead of it to a worked example.
    """

    name: ClassVar[str]

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """One or several drafts, each with exactly one right option.

        Raises:
            NotApplicable: this item does not allow it.
        """


@cache
def registered() -> dict[str, type[Variant]]:
    """Every variant by its name: the classes with a `name` and `apply` in this package's modules."""
    import evals.variants as package

    return classes(package, "variants", lambda value: hasattr(value, "apply"))
