"""The lead of one checkpoint over another, on the published form of a benchmark and on its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.report.checkpoints import Checkpoint
from argosy.report.paired import DRAWS, clusters_of, over_forms, same_questions
from argosy.statistics import Interval, balanced_weights, difference_of_differences

PLAIN = "plain"
MOST_PAIRS = 150


@dataclass(frozen=True)
class Lead:
    """The lead of `first` over `second` on the published form and on a variant; `lost`: the first minus the second.

    Items are weighted so that the right option is at each published place equally often: a model that prefers a
    place has no lead from it.
    """

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
    return [lead for v in common if (lead := _lead(first, second, task, [v])) is not None]


def pair_leads(checkpoints: Sequence[Checkpoint], task: str) -> list[Lead]:
    """For all pairs (for those of one parent, where there are too many): over all variants together."""
    asked = [c for c in checkpoints if (task, PLAIN) in c.answers]
    pairs = [(a, b) for i, a in enumerate(asked) for b in asked[i + 1 :]]
    if len(pairs) > MOST_PAIRS:
        pairs = [(a, b) for a, b in pairs if a.base == b.base or a.base == b.key or b.base == a.key]
    found = []
    for a, b in pairs:
        common = [v for v in a.variants(task) if v != PLAIN and (task, v) in b.answers]
        lead = _lead(a, b, task, common) if common else None
        found += [lead] if lead else []
    return found


def _lead(a: Checkpoint, b: Checkpoint, task: str, variants: Sequence[str]) -> Lead | None:
    plain_a, plain_b = a.answers[task, PLAIN].by_item, b.answers[task, PLAIN].by_item
    changed_a, changed_b = over_forms(a, task, variants), over_forms(b, task, variants)
    published, changed_forms = same_questions(a, b, task, [PLAIN]), same_questions(a, b, task, variants)
    items = sorted({*published} & {*changed_forms})
    if not items:
        return None
    places = a.answers[task, PLAIN].places
    weights = dict(zip(items, balanced_weights([places[item] for item in items]), strict=True))
    plain = [[of[item] * weights[item] for item in items] for of in (plain_a, plain_b)]
    changed = [[of[item] * weights[item] for item in items] for of in (changed_a, changed_b)]
    name = variants[0] if len(variants) == 1 else "all variants"
    known = clusters_of(a, task, [PLAIN])
    lost = difference_of_differences(plain[0], plain[1], changed[0], changed[1], draws=DRAWS,
                                     clusters=[known[item] for item in items])
    return Lead(a.key, b.key, name, _difference(*plain), _difference(*changed), lost, len(items))


def _difference(first: Sequence[float], second: Sequence[float]) -> float:
    return (sum(first) - sum(second)) / len(first)
