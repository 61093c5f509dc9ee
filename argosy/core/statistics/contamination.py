"""A score of contamination: how far a benchmark's published form stands out for a model, calibrated on clean models.

Knowledge survives a changed form, memory of an item does not. So the score is made of what an item's published form
has over its equals, in which the answer is the same:

* `Equals`: scores of the published form and of equal ones (the log-probability of the item, or of its right letter, in
  its published order of options and in others: Ni et al., "Training on the Benchmark Is Not All You Need", 2024; Oren
  et al., "Proving Test Set Contamination in Black Box Language Models", 2024; of the item's last option after the
  others: verbatim completion). For a model that has not seen the item, the published form has any rank.
* `Gap`: right answers as published minus right answers in a changed form (other orders, labels, letters against texts,
  paraphrases, other distractors). Other orders are as hard; where a form is harder for everybody, only calibration on
  clean models, or a clean reference that was asked the same, says how much of a gap is normal.

Each is an effect: the mean over items in units of its root mean square, as large for 200 items as for 2,000."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from argosy.core.statistics.intervals import mean, quantile
from argosy.core.store.files import read_json


@dataclass(frozen=True)
class Equals:
    """Scores of each item: of the published form first, then of its equals (higher: likelier)."""

    name: str
    scores: Mapping[str, Sequence[float]]

    def values(self) -> dict[str, float]:
        """Return by item where the published form stands among its equals, in their standard deviations: mean 0 and
        mean square 1 for a model that has not seen the items, whatever its scale."""
        return {item: _standing(scores) for item, scores in self.scores.items() if len(scores) > 1}


@dataclass(frozen=True)
class Gap:
    """Right answers of each item (0 to 1) as published and in a changed form."""

    name: str
    published: Mapping[str, float]
    changed: Mapping[str, float]

    def values(self) -> dict[str, float]:
        """Return by item the share of right answers that the change costs."""
        return {item: self.published[item] - self.changed[item] for item in self.published if item in self.changed}


Evidence = Equals | Gap


def _standing(scores: Sequence[float]) -> float:
    centre = math.fsum(scores) / len(scores)
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in scores) / len(scores))
    if not math.isfinite(spread):
        return math.nan
    return (scores[0] - centre) / spread if spread > 0 else 0.0


DEFAULT = Path(__file__).with_name("contamination_default.json")
CAP = 5.0  # of z: beyond, it is as sure as it gets, and one model that stands out most must not bend the curve


@dataclass(frozen=True)
class Null:
    """Effects of a measure over clean models."""

    mean: float
    """their mean; not 0 where the published form is easier for everybody"""
    error: float
    """standard deviation between models beyond what their items explain, with the error of `mean`"""


@dataclass(frozen=True)
class Calibration:
    """Nulls by measure, and the logistic curve from z (which counts up to 5, either way) to a probability.

    about: what it was made of, for people."""

    nulls: Mapping[str, Null]
    intercept: float
    slope: float
    about: str = ""

    def probability(self, z: float) -> float:
        """Return that of contamination, with even odds before; NaN where no contaminated models were known."""
        power = self.intercept + self.slope * max(-CAP, min(CAP, z))
        return math.nan if math.isnan(power) else 1 / (1 + math.exp(-power))

    @property
    def most(self) -> float:
        """The largest probability that it gives."""
        return max(self.probability(CAP), self.probability(-CAP))


@cache
def default_calibration() -> Calibration:
    """Return that of small models (docs/benchmarks.md#contamination-score)."""
    found = read_json(DEFAULT)
    return Calibration(**{**found, "nulls": {name: Null(**null) for name, null in found["nulls"].items()}})


LEAST_ITEMS = 20
LEAST_OF_PLACE = 10  # items with their right option at a place: of fewer, neither what it does nor its error is known


@dataclass(frozen=True)
class Part:
    """One measure. effect: above 0, the published form stands out. z: in errors, above what is normal for clean models;
    p_value: one-sided, how often a clean model's is as high."""

    name: str
    effect: float
    stderr: float
    items: int
    z: float
    p_value: float


def columns(evidence: Sequence[Evidence], reference: Sequence[Evidence],
            places: Mapping[str, Hashable] | None) -> tuple[dict[str, dict[str, float]], int]:
    """Values by measure and item, and how many items are left out for their place."""
    known = {each.name: each.values() for each in reference}
    found: dict[str, dict[str, float]] = {}
    rare: set[str] = set()
    for each in evidence:
        values = {item: value for item, value in each.values().items() if math.isfinite(value)}
        if reference:
            other = known.get(each.name, {})
            values = {item: value - other[item] for item, value in values.items() if item in other}
        left = _rare(values, places) if places is not None else set()
        rare |= left
        values = {item: value for item, value in values.items() if item not in left}
        if len(values) >= LEAST_ITEMS and any(values.values()):
            found[each.name] = values
    return found, len(rare)


def _rare(items: Iterable[str], places: Mapping[str, Hashable]) -> set[str]:
    """Items of places that are too rare; of all with a number of options of which one place is."""
    sizes = Counter(places.get(item) for item in items)
    short = {place for place, size in sizes.items() if size < LEAST_OF_PLACE}
    options = {_options(place) for place in sizes} - {None}
    broken = {n for n in options if n is not None and any(sizes[at, n] < LEAST_OF_PLACE for at in range(n))}
    return {item for item in items if places.get(item) in short or _options(places.get(item)) in broken}


def _options(place: Hashable) -> int | None:
    """The number of options that a place is one of, where it says so."""
    return place[1] if isinstance(place, tuple) and len(place) == 2 and isinstance(place[1], int) else None


def part(name: str, column: Mapping[str, float], places: Mapping[str, Hashable] | None,
          clusters: Mapping[str, Hashable] | None, null: Null) -> Part:
    """The mean over places of the mean over items, in units of the root mean square, with its (clustered) error."""
    items = sorted(column)
    values = np.array([column[item] for item in items])
    values = values / math.sqrt(float(np.mean(values**2)))
    strata = [places.get(item) if places is not None else None for item in items]
    sizes, alike = Counter(strata), Counter(_options(place) for place in set(strata))
    of_options = Counter(map(_options, strata))
    of_place = {place: float(np.mean(values[[other == place for other in strata]])) for place in sizes}
    weights = np.array([of_options[_options(p)] / alike[_options(p)] / sizes[p] for p in strata])
    effect = float(np.mean(values * weights))
    # What a place does is the same for all of its items: no part of the error. It takes one degree of freedom of each.
    freed = np.array([math.sqrt(sizes[p] / max(1, sizes[p] - 1)) for p in strata])
    rest = (values - [of_place[place] for place in strata]) * weights * freed
    groups = [clusters.get(item, item) for item in items] if clusters else None
    stderr = mean(rest.tolist(), groups).stderr * math.sqrt(1 - 1 / len(items))
    # As if one more item stood out: some that all stay the same do not say that none ever changes.
    stderr = math.hypot(stderr, float(np.max(np.abs(values) * weights)) / len(items))
    z = (effect - null.mean) / math.hypot(stderr, null.error)
    return Part(name, effect, stderr, len(items), z, math.erfc(z / math.sqrt(2)) / 2)


@dataclass(frozen=True)
class Contamination:
    """Whether a model has seen a benchmark as it was published."""

    measure: str
    """the one that stands out most: text that was trained on as a whole shows in another than answers that were tuned
    on, so one is enough"""
    score: float
    """its effect less what is normal for clean models: about 0 for those"""
    low: float
    """end of the score's interval, simultaneous over measures: over items, and clean models where it is calibrated"""
    high: float
    """upper end of all measures: one that cannot move (letters of a model that always says A) hides no other's error"""
    z: float
    """effect of that measure, in standard errors"""
    p_value: float
    """one-sided, corrected for the number of measures (Sidak): how often a clean model scores as high"""
    probability: float
    """probability of contamination, by calibration, with even odds before; NaN without a calibration"""
    items: int
    parts: tuple[Part, ...]
    left_out: int = 0
    """items whose right option's place is too rare to know what it does"""


def score(evidence: Sequence[Evidence], places: Mapping[str, Hashable] | None = None,
          clusters: Mapping[str, Hashable] | None = None, calibration: Calibration | None = None,
          reference: Sequence[Evidence] = (), level: float = 0.95) -> Contamination:
    """The score of one model and one benchmark.

    Args:
        evidence: measures of different names; those of fewer than 20 items are left out.
        places: where each item's right option is published, as (place, number of options) where that number varies:
            places of one number count the same, since a model that prefers a place stands out where that is the right
            one (post-stratification); numbers of options count by their items. A number of which a place has fewer than
            10 items is left out, without numbers such a place.
        clusters: of each item, what related ones share.
        calibration: what clean and contaminated models score; measures that it does not know are left out. None: a
            clean model's effects are 0.
        reference: measures of a clean model asked the same: its effects are taken off item by item, so that what is
            normal is 0; the spread between clean models counts twice.

    Raises ValueError: no measure is left."""
    values, left_out = columns(evidence, reference, places)
    if calibration is not None:
        values = {name: column for name, column in values.items() if name in calibration.nulls}
    if not values:
        what = ", ".join(each.name for each in evidence) or "none"
        if left_out:
            what += f"; {left_out} items have their right option at a place of fewer than {LEAST_OF_PLACE}"
        raise ValueError(f"no measure of contamination of {LEAST_ITEMS} or more items that are comparable: {what}")
    nulls = {name: calibration.nulls[name] if calibration else Null(0.0, 0.0) for name in values}
    if reference:
        nulls = {name: Null(0.0, math.sqrt(2) * null.error) for name, null in nulls.items()}
    found = [part(name, column, places, clusters, nulls[name]) for name, column in values.items()]
    most = max(found, key=lambda each: each.z)
    margin = quantile(1 - (1 - level) / len(found))
    excess = {each.name: each.effect - nulls[each.name].mean for each in found}
    half = {each.name: margin * math.hypot(each.stderr, nulls[each.name].error) for each in found}
    p_value = -math.expm1(len(found) * math.log1p(-most.p_value)) if most.p_value < 1 else 1.0
    probability = calibration.probability(most.z) if calibration else math.nan
    return Contamination(most.name, excess[most.name], excess[most.name] - half[most.name],
                         max(excess[name] + half[name] for name in excess), most.z, p_value, probability,
                         max(each.items for each in found), tuple(found), left_out)
