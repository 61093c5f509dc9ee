"""Other orders of the same options, and a model's preference for places measured with them."""

from dataclasses import replace
from itertools import permutations
from math import factorial
from random import Random

from pydantic import Field

from evals.question import Draft, moved_on
from evals.variants import NotApplicable, Variant

MOST_LISTED = 5  # options up to which all orders (120) are listed


class Permuted(Variant):
    """One question for each of `k` orders, none of them the published one; k=0: all orders, with the published.

    Orders come in rounds: an order that is drawn, moved on by one place, by two, and so on, so that in a round each
    option, right or wrong, is at each place once; the round's last order has the right option at its published place.
    No order comes twice. So with `k` a multiple of the number of options a model that prefers places gains nothing,
    and with one fewer, the right option is at each place once among the orders and the published one. Accuracy is over
    all questions; consistency, position bias and the accuracy of averaged probabilities are over the orders of each
    item (evals.metrics)."""

    name = "permuted"
    independent = reorders = True
    several = True
    k: int = Field(4, ge=0)

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        n = len(draft.choices)
        if self.k:
            orders = _orders(n, draft.gold, min(self.k, factorial(n) - 1), rng)
            return [draft.with_options(order) for order in orders]
        if n > MOST_LISTED:
            raise NotApplicable(f"has more than {MOST_LISTED} options, too many orders")
        return [draft.with_options(order) for order in permutations(range(n))]


def _orders(n: int, gold: int, k: int, rng: Random) -> list[tuple[int, ...]]:
    """Draw `k` orders of `n` options but the published one, round after round; that of the published one comes last."""
    published, found, rounds = tuple(range(n)), list[tuple[int, ...]](), {tuple(range(n))}
    places = [place for place in range(n) if place != gold]
    rng.shuffle(places)
    while len(found) < k:
        others = [*range(1, n)]
        while len(rounds) < factorial(n - 1) and (0, *others) in rounds:
            rng.shuffle(others)
        rounds.add((0, *others))
        order = (0, *others)
        moved = [moved_on(order, order.index(gold) - place) for place in (*places, gold)]
        found += [each for each in moved if each != published]
    return found[:k]


class Pride(Variant):
    """PriDe (Zheng et al., "Large Language Models Are Not Robust Multiple Choice Selectors", 2024).

    A `share` of the items is also asked with its options moved on by one place, by two, and so on. From these the
    prior of each place is estimated without looking at right answers; `acc_pride` is right after dividing by it
    (evals/metrics.py). `acc` is that of the published order: the moved ones are for calibration alone."""

    name = "pride"
    independent = reorders = True
    share: float = Field(0.1, gt=0, le=1)

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Keep the draft, and add the cyclic orders of a sampled item."""
        if rng.random() >= self.share:
            return [draft]
        published = range(len(draft.choices))
        orders = [moved_on(published, by) for by in published[1:]]
        return [draft, *(replace(draft.with_options(order), calibration=True) for order in orders)]
