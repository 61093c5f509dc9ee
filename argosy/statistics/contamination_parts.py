"""One measure of contamination over a benchmark's items: its effect with its error, whatever places are preferred."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.statistics.contamination_evidence import Evidence
from argosy.statistics.contamination_null import Null
from argosy.statistics.intervals import mean

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


def columns(
    evidence: Sequence[Evidence], reference: Sequence[Evidence], places: Mapping[str, Hashable] | None
) -> tuple[dict[str, dict[str, float]], int]:
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
