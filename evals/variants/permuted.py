"""The same options in other orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random
from typing import ClassVar

from evals.other_options import options_refer_to_options
from evals.question import Draft
from evals.variants.registry import NotApplicable

MOST_LISTED = 5  # options up to which all orders (120) are listed


@dataclass(frozen=True)
class Permuted:
    """One question for each of `k` orders, none of them the published one; k=0: all orders, with the published.

    The orders are drawn without repetition. Accuracy is over all questions; consistency, position bias and the
    accuracy of averaged probabilities are over the orders of each item (evals.metrics).
    """

    name: ClassVar[str] = "permuted"
    k: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 0:
            raise ValueError(f"k is {self.k!r}; allowed: 0 (all orders) or a number of orders")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Drafts that differ in the order of options alone."""
        if options_refer_to_options(draft.own_choices):
            raise NotApplicable("an option speaks of the other options")
        return [reordered(draft, order) for order in self._orders(len(draft.choices), rng)]

    def _orders(self, n: int, rng: Random) -> list[tuple[int, ...]]:
        if self.k == 0:
            if n > MOST_LISTED:
                raise NotApplicable(f"has more than {MOST_LISTED} options, too many orders")
            return list(permutations(range(n)))
        if n <= MOST_LISTED:
            others = list(permutations(range(n)))[1:]
            return rng.sample(others, min(self.k, len(others)))
        drawn = dict.fromkeys([tuple(range(n))])
        for order in _shuffles(n, rng):
            drawn.setdefault(order)
            if len(drawn) > self.k:
                break
        return list(drawn)[1:]


def reordered(draft: Draft, order: tuple[int, ...]) -> Draft:
    """The draft with its options in the order `order` (old index at each new place)."""
    return replace(
        draft,
        choices=tuple(draft.choices[old] for old in order),
        origin=tuple(draft.origin[old] for old in order),
        gold=order.index(draft.gold),
    )


def _shuffles(n: int, rng: Random) -> Iterator[tuple[int, ...]]:
    while True:
        order = list(range(n))
        rng.shuffle(order)
        yield tuple(order)
