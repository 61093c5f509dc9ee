"""Groups of items that one model has seen differently often: each is a benchmark of its own for the score, so that one
training run has every number of exposures, with its clean cases."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from argosy.corpus.demo.facts import load_facts
from argosy.corpus.demo.knowledge import benchmark_items
from benchmarks.contamination import models
from evals.items import Item

PLACES = 4
ITEMS = 48  # of a group, 12 at each place: the score leaves out places of fewer than 10
REWORDED: list[Any] = ["paraphrased"]
REORDERED: list[Any] = ["paraphrased", {"permuted": {"k": 1}}, {"labels": {"symbols": "digits"}}]
NEVER, PUBLISHED, TRANSLATED = "never", "published", "translated"
LEAKS = {"reworded": REWORDED, "reordered": REORDERED}
Plan = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Group:
    """Items of one benchmark, and how a model has seen them.

    Attributes:
        kind: `never`; `published`; `reworded` (another wording of the question, by rule, each time; the options as
            published), `reordered` (that, and each time another order with digits for letters) or `translated` (the
            item in Chinese).
        exposures: times that each item is in the text.
        source: the benchmark."""

    source: str
    kind: str
    exposures: int
    items: tuple[Item, ...]
    originals: tuple[Item, ...] = ()  # in Chinese, of each

    @property
    def name(self) -> str:
        """Name that no other group of a model has, but those never seen."""
        return f"{self.source} {self.kind} {self.exposures}"

    def texts(self) -> list[str]:
        """The documents of all exposures."""
        if self.kind in LEAKS:
            return [text for item in self.items for seed in range(self.exposures)
                    for text in models.asked(self.kind, item, seed, LEAKS[self.kind])]
        shown = self.originals if self.kind == TRANSLATED else self.items
        return [text for item in shown for text in models.asked("plain", item, 0) * self.exposures]


def groups(
    source: str, pool: Sequence[Item], plan: Plan, seed: str, size: int = ITEMS, places: int = PLACES
) -> list[Group]:
    """Draw the groups of a plan (kind, exposures), with as many right options at each place."""
    at = [[item for item in pool if item.answer == place] for place in range(places)]
    for items in at:
        Random(f"groups/{seed}").shuffle(items)
    each = size // places
    cuts = [tuple(item for items in at for item in items[n * each : (n + 1) * each]) for n in range(len(plan))]
    return [Group(source, kind, exposures, items) for (kind, exposures), items in zip(plan, cuts, strict=True)]


def facts(plan: Plan, seed: str, size: int = ITEMS) -> list[Group]:
    """Groups of the demo's questions on real facts, which exist in English, as they are asked, and in Chinese."""
    made = benchmark_items(load_facts(), seed)
    items = {each["id"]: Item(each["id"], each["lang"], each["question"], tuple(each["choices"]), each["answer"])
             for each in made}
    found = groups("facts", [item for item in items.values() if item.lang == "en"], plan, seed, size)
    return [Group(g.source, g.kind, g.exposures, g.items,
                  tuple(items[item.id.removesuffix("/en") + "/zh"] for item in g.items)) for g in found]
