"""Two checkpoints on the same items: what changed, in each form of the question and in the headline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.comparison.shared import ASKED_OTHERWISE, shared
from argosy.report.checkpoints import Checkpoint
from argosy.statistics import Interval, compare_items, holm

ALPHA = 0.05
DRAWS = 4000
HEADLINE = "headline"


@dataclass(frozen=True)
class Change:
    """From `first` to `second` in one form. difference: second minus first, as a share of right answers.

    Attributes:
        gained, lost: items that are more, or less, often right than before.
        p_adjusted: by Holm's method, over the family that `family` names.
    """

    first: str
    second: str
    task: str
    variant: str
    before: float
    after: float
    interval: Interval
    items: int
    gained: int
    lost: int
    p_value: float
    p_adjusted: float = 1.0

    @property
    def verdict(self) -> str:
        """`better`, `worse`, or `no difference` that these items can show."""
        if self.p_adjusted >= ALPHA:
            return "no difference"
        return "better" if self.interval.value > 0 else "worse"


def changes(first: Checkpoint, second: Checkpoint, task: str) -> list[Change]:
    """A change for each form that both were asked in, Holm-corrected over the forms; the headline comes first.

    The change of the headline is one test and is not corrected here: who makes several of them corrects over those.
    """
    common = [variant for variant in second.variants(task) if (task, variant) in first.answers]
    found = [_change(first, second, task, v, [v]) for v in common]
    each = adjust([change for change in found if change is not None])
    whole = headline_change(first, second, task)
    return [whole, *each] if whole else each


def other_questions(first: Checkpoint, second: Checkpoint) -> list[str]:
    """A sentence, where questions of the same names were asked otherwise, or are others: they are not compared."""
    found = []
    forms = [(task, v) for task in sorted({*first.tasks} & {*second.tasks}) for v in second.variants(task)]
    for task, v in (form for form in forms if form in first.answers):
        both = shared(first.answers[task, v].values, second.answers[task, v].values)
        if both.others or both.otherwise:
            n, of = both.otherwise, len(both.keys) + both.otherwise
            found.append(f"{task} {v}" + (f" ({n:,} of {of:,} questions)" if n < of and not both.others else ""))
    if not found:
        return []
    return [f"{', '.join(found).replace('_', ' ')}: {second.label} is not compared to {first.label}, "
            f"{ASKED_OTHERWISE}: evaluate both with the same suite, seed and data."]


def _both(
    first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str]
) -> tuple[list[float], list[float], list[str]] | None:
    """Shares of right answers of both, over the forms, and what items share with related ones; None where there are no
    questions that both were asked."""
    items = same_questions(first, second, task, forms)
    if not items:
        return None
    a, b, clusters = over_forms(first, task, forms), over_forms(second, task, forms), clusters_of(second, task, forms)
    return [a[i] for i in items], [b[i] for i in items], [clusters[i] for i in items]


def same_questions(first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str]) -> list[str]:
    """Items that both were asked in all of the forms, in the same way; none where names mean other items for each."""
    found = [shared(first.answers[task, form].values, second.answers[task, form].values) for form in forms]
    if not found or any(both.others for both in found):
        return []
    return sorted(set.intersection(*(set(both.keys) for both in found)))


def headline_change(first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str] = ()) -> Change | None:
    """The change of the mean over `forms` (else over those of the headline of both), item by item."""
    common = forms or [variant for variant in second.headline_of(task) if variant in first.headline_of(task)]
    return _change(first, second, task, HEADLINE, common)


def headline_p_value(first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str], draws: int) -> float:
    """The p-value alone, with as many draws as a large family needs; 1 where there are no common items."""
    both = _both(first, second, task, forms)
    return compare_items(*both, draws=draws).p_value if both else 1.0


def over_forms(checkpoint: Checkpoint, task: str, variants: Sequence[str]) -> dict[str, float]:
    """For each item that was asked in all of `variants`, the mean over them: every form counts the same."""
    forms = [checkpoint.answers[task, variant].by_item for variant in variants]
    items = set.intersection(*map(set, forms)) if forms else set()
    return {item: sum(form[item] for form in forms) / len(forms) for item in sorted(items)}


def clusters_of(checkpoint: Checkpoint, task: str, variants: Sequence[str]) -> dict[str, str]:
    """What each item shares with related ones: they err together, so tests and intervals are over clusters."""
    return {item: cluster for v in variants for item, cluster in checkpoint.answers[task, v].clusters.items()}


def adjust(found: Sequence[Change]) -> list[Change]:
    """With Holm's correction over all of them."""
    adjusted = holm({index: change.p_value for index, change in enumerate(found)})
    return [replace(change, p_adjusted=adjusted[index]) for index, change in enumerate(found)]


def _change(first: Checkpoint, second: Checkpoint, task: str, name: str, forms: Sequence[str]) -> Change | None:
    both = _both(first, second, task, forms)
    if both is None:
        return None
    a, b, clusters = both
    found = compare_items(a, b, clusters, draws=DRAWS)
    return Change(first.key, second.key, task, name, sum(a) / len(a), sum(b) / len(b),
                  Interval(found.value, found.low, found.high), len(a), found.gained, found.lost, found.p_value)
