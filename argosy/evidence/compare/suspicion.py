"""Leads that shrink when the form of the questions changes, beneath the score of contamination."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from argosy.core.statistics.intervals import balanced_weights
from argosy.core.statistics.paired import DRAWS, Interval, difference_of_differences
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.results.contamination import LIKELY, PLAIN, Seen
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


@dataclass
class Suspicion:
    """The evidence that one checkpoint has seen one task."""

    checkpoint: str
    task: str
    seen: Seen
    """the calibrated score and its verdict, which is this one's `level`"""
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
    """Suspicions, one for each checkpoint that was asked `task`."""
    found = [Suspicion(c.key, task, c.seen[task]) for c in checkpoints if task in c.seen]
    of = {s.checkpoint: s for s in found}
    asked = [c for c in checkpoints if c.key in of and (task, PLAIN) in c.answers]
    clean = {s.checkpoint for s in found if s.level != LIKELY}
    for c in asked:
        others = [other for other in asked if other.key in clean and other is not c]
        alike = [other for other in others if other.chat == c.chat] or others  # asked in the same way, where there are
        reference = max(alike, key=lambda c: (fmean(c.answers[task, PLAIN].by_item.values()), c.label), default=None)
        if reference is not None:
            of[c.key].reference = reference.key
            of[c.key].leads = leads(c, reference, task)
    return found
