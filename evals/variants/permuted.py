"""Other orders of the same options, and a model's preference for places measured with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, permutations, repeat
from math import factorial
from random import Random

from evals.question import Draft
from evals.variants import NotApplicable, Variant, added_about_others, options_refer_to_options

MOST_LISTED = 5  # options up to which all orders (120) are listed


@dataclass(frozen=True)
class Permuted(Variant):
    """One question for each of `k` orders, none of them the published one; k=0: all orders, with the published.

    The right option comes to every place in turn, its published place last, among wrong ones in an order that is
    drawn; no order comes twice. So with `k` a multiple of the number of options, each item has its right option at
    each place equally often, and a model that prefers a place gains nothing; with one fewer, the orders and the
    published one do so together. Accuracy is over all questions; consistency, position bias and the accuracy of
    averaged probabilities are over the orders of each item (evals.metrics).
    """

    name = "permuted"
    several = True
    k: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 0:
            raise ValueError(f"k is {self.k!r}; allowed: 0 (all orders) or a number of orders")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Make drafts that differ in the order of options alone."""
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
    """Draw `k` orders of `n` options but the published one, the right option's place going round."""
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
    """Yield all places in a drawn order, the published one last, again and again."""
    others = [place for place in range(n) if place != gold]
    rng.shuffle(others)
    return chain.from_iterable(repeat((*others, gold)))


def reordered(draft: Draft, order: tuple[int, ...]) -> Draft:
    """Put the options in the order `order` (old index at each new place)."""
    return draft.with_options(order)


@dataclass(frozen=True)
class Pride(Variant):
    """PriDe (Zheng et al., "Large Language Models Are Not Robust Multiple Choice Selectors", 2024).

    A `share` of the items is also asked with its options moved on by one place, by two, and so on. From these the
    prior of each place is estimated without looking at right answers; `acc_pride` is right after dividing by it
    (evals/metrics.py). `acc` is that of the published order: the moved ones are for calibration alone.
    """

    name = "pride"
    share: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share!r}; allowed: above 0, at most 1")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Keep the draft, and add the cyclic orders of a sampled item."""
        if options_refer_to_options(draft.own_choices):
            raise NotApplicable("an option speaks of the other options")
        if added_about_others(draft.choices, draft.origin, above=True):
            raise NotApplicable("an added option speaks of those above it, and has to stay the last")
        if rng.random() >= self.share:
            return [draft]
        n = len(draft.choices)
        orders = [[*range(shift, n), *range(shift)] for shift in range(1, n)]
        return [draft, *(replace(draft.with_options(order), calibration=True) for order in orders)]
