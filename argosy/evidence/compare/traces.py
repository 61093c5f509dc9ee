"""Traces of contamination beneath the score: order gaps, and leads that shrink when the form changes."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from argosy.core.statistics.decisions import DECISION, correct
from argosy.core.statistics.intervals import balanced_weights, mean
from argosy.core.statistics.paired import (
    DRAWS,
    Interval,
    difference_of_differences,
    paired_bootstrap,
    paired_permutation,
)
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.test import ALPHA
from argosy.evidence.results.contamination import LIKELY, PLAIN, Seen
from argosy.evidence.results.rows import Place
from argosy.evidence.results.values import over_forms, shared


@dataclass(frozen=True)
class Lead:
    """The lead of `first` over `second` on the published form and on a variant; `lost`: the first minus the second.

    Items are weighted so that the right option is at each published place equally often: a model that prefers a
    place has no lead from it."""

    first: str
    second: str
    variant: str
    plain: float
    changed: float
    lost: Interval
    items: int


def leads(first: Checkpoint, second: Checkpoint, task: str) -> list[Lead]:
    """The lead on every variant that both were asked in."""
    common = [v for v in first.variants(task) if v != PLAIN and (task, v) in second.answers]
    return [lead for v in common if (lead := _lead(first, second, task, v)) is not None]


def _lead(a: Checkpoint, b: Checkpoint, task: str, variant: str) -> Lead | None:
    plain_a, plain_b = a.answers[task, PLAIN].by_item, b.answers[task, PLAIN].by_item
    changed_a, changed_b = (over_forms([c.rows.by_form(task, variant)]) for c in (a, b))
    published, changed_forms = _same_questions(a, b, task, PLAIN), _same_questions(a, b, task, variant)
    measured = (plain_a, plain_b, changed_a, changed_b)  # scores that are no numbers make no item
    items = sorted(set(published).intersection(changed_forms, *measured))
    if not items:
        return None
    places = a.answers[task, PLAIN].places
    weights = dict(zip(items, balanced_weights([places[item] for item in items]), strict=True))
    plain = [[of[item] * weights[item] for item in items] for of in (plain_a, plain_b)]
    changed = [[of[item].value * weights[item] for item in items] for of in (changed_a, changed_b)]
    known = a.answers[task, PLAIN].clusters
    lost = difference_of_differences(plain[0], plain[1], changed[0], changed[1], draws=DRAWS,
                                     clusters=[known[item] for item in items])
    return Lead(a.key, b.key, variant, _difference(*plain), _difference(*changed), lost, len(items))


def _same_questions(first: Checkpoint, second: Checkpoint, task: str, form: str) -> list[str]:
    """Items that both were asked in a form, in the same way; none where names mean other items for each."""
    both = shared(first.answers[task, form].values, second.answers[task, form].values)
    return [] if both.others else sorted(both.keys)


def _difference(first: Sequence[float], second: Sequence[float]) -> float:
    return (sum(first) - sum(second)) / len(first)


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
    """The evidence that one checkpoint has seen one task."""

    checkpoint: str
    task: str
    seen: Seen
    """the calibrated score and its verdict, which is this one's `level`"""
    traces: list[Trace] = field(default_factory=list)
    """the detail: measures that need no other checkpoint"""
    reference: str | None = None
    leads: list[Lead] = field(default_factory=list)
    """the detail: against `reference`, a checkpoint that is not likely to have seen it, for each variant. Shrinking
    leads alone say nothing: they also come from learning the form of the questions."""

    @property
    def level(self) -> str:
        """`likely`, `not seen` or `cannot tell`."""
        return self.seen.verdict


@dataclass
class Suspect:
    """A benchmark with the suspicions of each checkpoint."""

    task: str
    suspicions: list[Suspicion]

    @property
    def seen(self) -> set[str]:
        """Keys of the checkpoints that have likely seen the test."""
        return {s.checkpoint for s in self.suspicions if s.level == LIKELY}


def suspects(checkpoints: Sequence[Checkpoint]) -> list[Suspect]:
    """Benchmarks with a score, or the reason why there is none, of at least one checkpoint."""
    own = list({c.key: c for c in checkpoints}.values())
    return [Suspect(task, suspicions(own, task)) for task in sorted({task for c in own for task in c.seen})]


def suspicions(checkpoints: Sequence[Checkpoint], task: str) -> list[Suspicion]:
    """Suspicions, one for each checkpoint that was asked `task`; traces, of those asked as published, are corrected
    over all of them."""
    found = [Suspicion(c.key, task, c.seen[task]) for c in checkpoints if task in c.seen]
    of = {s.checkpoint: s for s in found}
    asked = [c for c in checkpoints if c.key in of and (task, PLAIN) in c.answers]
    for c in asked:
        of[c.key].traces = [trace for trace in (_gap(c, task), _published_first(c, task)) if trace is not None]
    adjusted = correct({(s.checkpoint, t.name): t.p_value for s in found for t in s.traces}, DECISION)
    for s in found:
        s.traces = [replace(t, p_adjusted=adjusted[s.checkpoint, t.name]) for t in s.traces]
    clean = {s.checkpoint for s in found if s.level != LIKELY}
    for c in asked:
        others = [other for other in asked if other.key in clean and other is not c]
        alike = [other for other in others if other.chat == c.chat] or others  # asked in the same way, where there are
        reference = max(alike, key=lambda c: (fmean(c.answers[task, PLAIN].by_item.values()), c.label), default=None)
        if reference is not None:
            of[c.key].reference = reference.key
            of[c.key].leads = leads(c, reference, task)
    return found


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
    p_value = paired_permutation(a, b, draws=DRAWS, clusters=clusters)
    return Trace("order gap", gap.value, 0.0, gap.low, gap.high, len(items), p_value)


def _published_first(c: Checkpoint, task: str) -> Trace | None:
    """Share of items whose published order makes the right letter likelier than every other order does."""
    name = f"bench/{task}/memorisation/answer_first"
    bounds, orders = c.interval(name), c.rows.orders(task)
    known = orders.values()
    weights = _weights([place for place, _ in known])
    if bounds is None or weights is None:
        return None
    shares = [1 / len(answers) for _, answers in known]
    n = len(weights)
    chance = math.fsum(w * share for w, share in zip(weights, shares, strict=True)) / n
    variance = math.fsum(w * w * share * (1 - share) for w, share in zip(weights, shares, strict=True)) / n**2
    related = c.answers[task, PLAIN].clusters
    first = [w * (answers[0] > max(answers[1:])) for w, (_, answers) in zip(weights, known, strict=True)]
    error = mean(first, [related.get(item, item) for item in orders]).stderr
    variance = max(variance, error**2) if math.isfinite(error) else math.inf  # related items err together
    z = (c.metrics[name] - chance) / math.sqrt(variance)
    return Trace("published order first", c.metrics[name], chance, *bounds, n, math.erfc(abs(z) / math.sqrt(2)))


def _weights(places: Sequence[Place]) -> list[float] | None:
    """Weights with which the right option is at each place equally often, else a model that prefers a place looks
    as if it had seen the items, or had not. None where that cannot be: a place that is (almost) never the right one."""
    found = Counter(places)
    wanted = {Place(gold, place.options) for place in found for gold in range(place.options)}
    if not found or any(found[place] < LEAST for place in wanted):
        return None
    return balanced_weights(places)
