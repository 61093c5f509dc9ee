"""The same options in other orders, with the right one at every place equally often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, permutations, repeat
from math import factorial
from random import Random
from typing import ClassVar

from evals.other_options import added_about_others, options_refer_to_options
from evals.question import Draft
from evals.variants.registry import NotApplicable

MOST_LISTED = 5  # options up to which all orders (120) are listed


@dataclass(frozen=True)
class Permuted:
    """One question for each of `k` orders, none of them the published one; k=0: all orders, with the published.

    The right option comes to every place in turn, its published place last, among wrong ones in an order that is
    drawn; no order comes twice. So with `k` a multiple of the number of options, each item has its right option at
    each place equally often, and a model that prefers a place gains nothing; with one fewer, the orders and the
    published one do so together. Accuracy is over all questions; consistency, position bias and the accuracy of
    averaged probabilities are over the orders of each item (evals.metrics).
    """

    name: ClassVar[str] = "permuted"
    several: ClassVar[bool] = True
    k: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 0:
            raise ValueError(f"k is {self.k!r}; allowed: 0 (all orders) or a number of orders")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Drafts that differ in the order of options alone."""
        if options_refer_to_options(draft.own_choices):
            raise NotApplicable("an option speaks of the other options")
        if added_about_others(draft.choices, draft.origin, above=True):
            raise NotApplicable("an added option speaks of those above it, and has to stay the last")
        n = len(draft.choices)
        if self.k:
            return [reordered(draft, order) for order in _orders(n, draft.gold, min(self.k, factorial(n) - 1), rng)]
        if n > MOST_LISTED:
            raise NotApplicable(f"has more than {MOST_LISTED} options, too many orders")
        return [reordered(draft, order) for order in permutations(range(n))]


def _orders(n: int, gold: int, k: int, rng: Random) -> list[tuple[int, ...]]:
    """`k` orders of `n` options but the published one, the right option's place going round."""
    published = tuple(range(n))
    found: dict[tuple[int, ...], None] = {}
    left = Counter(dict.fromkeys(range(n), factorial(n - 1)))  # orders with the right option at a place
    left[gold] -= 1  # the published one
    for place in _places(n, gold, rng):
        if len(found) == k:
            break
        if not left[place]:
            continue
        left[place] -= 1
        order = published
        while order == published or order in found:
            wrong = [old for old in range(n) if old != gold]
            rng.shuffle(wrong)
            order = (*wrong[:place], gold, *wrong[place:])
        found[order] = None
    return list(found)


def _places(n: int, gold: int, rng: Random) -> Iterator[int]:
    """All places in an order that is drawn, the published one last, again and again."""
    others = [place for place in range(n) if place != gold]
    rng.shuffle(others)
    return chain.from_iterable(repeat((*others, gold)))


def reordered(draft: Draft, order: tuple[int, ...]) -> Draft:
    """The draft with its options in the order `order` (old index at each new place)."""
    return draft.with_options(order)
