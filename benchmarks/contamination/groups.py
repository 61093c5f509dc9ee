"""Groups of items that one model has seen differently often: each is a benchmark of its own for the score, so that one
training run has every number of exposures, with its clean cases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from random import Random
from typing import Any

from argosy.core.statistics.contamination import Calibration, Contamination, Equals, Evidence, Gap, score
from argosy.corpus.demo.facts import load_facts
from argosy.corpus.demo.knowledge import benchmark_items
from benchmarks.contamination import models
from evals.items import Item

PLACES = 4
ITEMS = 48  # of a group, 12 at each place: the score leaves out places of fewer than 10
SET, SETS = 40, 200  # items of a resampled set, 10 at each place, and such sets of a group
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
        source: the benchmark; groups are compared with those of the same one that were never seen."""

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


@dataclass(frozen=True)
class Asked:
    """A model's evidence on a group."""

    source: str
    kind: str
    exposures: int
    evidence: tuple[Evidence, ...]
    places: Mapping[str, int]

    @classmethod
    def of(cls, group: Group, evidence: Sequence[Evidence]) -> "Asked":
        return cls(group.source, group.kind, group.exposures, tuple(evidence),
                   {item.id: item.answer for item in group.items})

    @property
    def clean(self) -> bool:
        return self.exposures == 0

    def score(self, calibration: Calibration) -> Contamination:
        """The score of the group; the number of options is the same for all items."""
        return score(self.evidence, self.places, calibration=calibration)

    def standings(self, name: str) -> list[float]:
        """Standings of the items' published orders among their equals, in standard deviations."""
        return [value for each in self.evidence if each.name == name for value in each.values().values()]

    def sets(self, calibration: Calibration, seed: int = 0) -> list[float]:
        """z of sets of items, drawn with replacement, as many at each place."""
        rng = Random(seed)
        at = [[item for item, own in self.places.items() if own == place] for place in range(PLACES)]
        return [self._z([item for items in at for item in rng.choices(items, k=SET // PLACES)], calibration)
                for _ in range(SETS)]

    def _z(self, items: Iterable[str], calibration: Calibration) -> float:
        drawn = {f"{item}#{number}": item for item, number in zip(items, count(), strict=False)}
        found = [_resampled(each, drawn) for each in self.evidence]
        return score(found, {name: self.places[item] for name, item in drawn.items()}, calibration=calibration).z

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "evidence": [{**asdict(each), "of": type(each).__name__} for each in self.evidence]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Asked":
        kinds = {"Equals": Equals, "Gap": Gap}
        evidence = [kinds[each["of"]](**{name: value for name, value in each.items() if name != "of"})
                    for each in found["evidence"]]
        return cls(**{**found, "evidence": tuple(evidence)})


def _resampled(evidence: Evidence, drawn: Mapping[str, str]) -> Evidence:
    def of(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[item] for name, item in drawn.items() if item in values}

    if isinstance(evidence, Equals):
        return Equals(evidence.name, of(evidence.scores))
    return Gap(evidence.name, of(evidence.published), of(evidence.changed))
