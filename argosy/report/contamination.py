"""Which checkpoint has seen the test: the calibrated score decides (argosy.contamination), and beneath it the traces
and leads of single forms, to look at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from argosy.contamination.verdict import LIKELY, Seen
from argosy.report.answers import Place
from argosy.report.checkpoints import Checkpoint
from argosy.report.intervals import interval
from argosy.report.leads import PLAIN, Lead, leads
from argosy.report.paired import ALPHA, DRAWS
from argosy.statistics import balanced_weights, holm, mean, paired_bootstrap, paired_permutation

LEAST = 2  # items with their right option at a place, to tell what the place does
SAME_FORM = "permuted"  # the published form in other orders of its options: as hard for who knows the answer


@dataclass(frozen=True)
class Trace:
    """A measure that is known to be `chance` for a model that has not seen the items."""

    name: str
    value: float
    chance: float
    low: float
    high: float
    items: int
    p_value: float
    p_adjusted: float = 1.0

    @property
    def shows(self) -> bool:
        """Whether it is above what chance does, after the correction."""
        return self.p_adjusted < ALPHA and self.value > self.chance


@dataclass
class Suspicion:
    """What speaks for one checkpoint having seen one task.

    Attributes:
        seen: the calibrated score and its verdict, which is this one's `level`.
        traces: the detail: measures that need no other checkpoint.
        leads: the detail: against `reference`, a checkpoint that is not likely to have seen it, for each variant.
            Shrinking leads alone say nothing: they also come from learning the form of the questions.
    """

    checkpoint: str
    task: str
    seen: Seen
    traces: list[Trace] = field(default_factory=list)
    reference: str | None = None
    leads: list[Lead] = field(default_factory=list)

    @property
    def level(self) -> str:
        """`likely`, `not seen` or `cannot tell`."""
        return self.seen.verdict


def suspicions(checkpoints: Sequence[Checkpoint], task: str) -> list[Suspicion]:
    """One for each checkpoint that was asked `task`; traces, of those asked as published, are Holm-corrected over all
    of them."""
    found = [Suspicion(c.key, task, c.seen[task]) for c in checkpoints if task in c.seen]
    of = {s.checkpoint: s for s in found}
    asked = [c for c in checkpoints if c.key in of and (task, PLAIN) in c.answers]
    for c in asked:
        of[c.key].traces = _traces(c, task)
    adjusted = holm({(s.checkpoint, t.name): t.p_value for s in found for t in s.traces})
    for s in found:
        s.traces = [replace(t, p_adjusted=adjusted[s.checkpoint, t.name]) for t in s.traces]
    clean = {s.checkpoint for s in found if s.level != LIKELY}
    for c in asked:
        reference = _reference(c, [other for other in asked if other.key in clean and other is not c], task)
        if reference is not None:
            of[c.key].reference = reference.key
            of[c.key].leads = leads(c, reference, task)
    return found


def _reference(c: Checkpoint, others: Sequence[Checkpoint], task: str) -> Checkpoint | None:
    """Who is best at the published form, of those that are asked in the same way (chat template or not)."""
    alike = [other for other in others if other.chat == c.chat] or list(others)
    return max(alike, key=lambda other: (_plain(other, task), other.label), default=None)


def _plain(c: Checkpoint, task: str) -> float:
    values = c.answers[task, PLAIN].by_item.values()
    return sum(values) / len(values)


def _traces(c: Checkpoint, task: str) -> list[Trace]:
    return [trace for trace in (_gap(c, task), _first(c, task)) if trace is not None]


def _gap(c: Checkpoint, task: str) -> Trace | None:
    """Accuracy as published minus accuracy in other orders, both with the right option at each place equally often."""
    if (task, SAME_FORM) not in c.answers:
        return None
    published, other = c.answers[task, PLAIN], c.answers[task, SAME_FORM].by_item
    items = sorted((published.by_item.keys() & other.keys()) - published.mixed)
    weights = _weights([published.places[item] for item in items])
    if weights is None:
        return None
    a = [published.by_item[item] * weight for item, weight in zip(items, weights, strict=True)]
    b = [other[item] * weight for item, weight in zip(items, weights, strict=True)]
    clusters = [published.clusters[item] for item in items]
    gap = paired_bootstrap(a, b, draws=DRAWS, clusters=clusters)
    p_value = paired_permutation(a, b, draws=DRAWS, clusters=clusters).p_value
    return Trace("order gap", gap.value, 0.0, gap.low, gap.high, len(items), p_value)


def _first(c: Checkpoint, task: str) -> Trace | None:
    """Share of items whose published order makes the right letter likelier than every other order does."""
    name = f"bench/{task}/memorisation/answer_first"
    bounds, orders = interval(c, name), c.orders.get(task, {})
    known = orders.values()
    weights = _weights([p.place for p in known])
    if bounds is None or weights is None:
        return None
    shares = [1 / len(p.answers) for p in known]
    n = len(weights)
    chance = math.fsum(w * share for w, share in zip(weights, shares, strict=True)) / n
    variance = math.fsum(w * w * share * (1 - share) for w, share in zip(weights, shares, strict=True)) / n**2
    related = c.answers[task, PLAIN].clusters
    first = [w * (p.answers[0] > max(p.answers[1:])) for w, p in zip(weights, known, strict=True)]
    error = mean(first, [related.get(item, item) for item in orders]).stderr
    variance = max(variance, error**2) if math.isfinite(error) else math.inf  # related items err together
    z = (c.metrics[name] - chance) / math.sqrt(variance)
    return Trace("published order first", c.metrics[name], chance, *bounds, n, math.erfc(abs(z) / math.sqrt(2)))


def _weights(places: Sequence[Place]) -> list[float] | None:
    """Weights with which the right option is at each place equally often, else a model that prefers a place looks
    as if it had seen the items, or had not. None where that cannot be: a place that is (almost) never the right one.
    """
    found = Counter(places)
    wanted = {Place(gold, place.options) for place in found for gold in range(place.options)}
    if not found or any(found[place] < LEAST for place in wanted):
        return None
    return balanced_weights(places)
