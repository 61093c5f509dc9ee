"""Two checkpoints on the same items: what changed, in each form of the question and in the headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.report.checkpoints import Checkpoint
from argosy.statistics import Interval, holm, mcnemar, paired_bootstrap, paired_permutation

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
    found = [_change(first, second, task, v, first.answers[task, v].by_item, second.answers[task, v].by_item)
             for v in common]
    each = adjust([change for change in found if change is not None])
    whole = headline_change(first, second, task)
    return [whole, *each] if whole else each


def headline_change(first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str] = ()) -> Change | None:
    """The change of the mean over `forms` (else over those of the headline of both), item by item."""
    common = forms or [variant for variant in second.headline_of(task) if variant in first.headline_of(task)]
    return _change(first, second, task, HEADLINE, over_forms(first, task, common), over_forms(second, task, common))


def headline_p_value(first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str], draws: int) -> float:
    """The p-value alone, with as many draws as a large family needs; 1 where there are no common items."""
    a, b = (over_forms(c, task, forms) for c in (first, second))
    items = sorted(a.keys() & b.keys())
    return _p_value([a[i] for i in items], [b[i] for i in items], draws) if items else 1.0


def over_forms(checkpoint: Checkpoint, task: str, variants: Sequence[str]) -> dict[str, float]:
    """For each item that was asked in all of `variants`, the mean over them: every form counts the same."""
    forms = [checkpoint.answers[task, variant].by_item for variant in variants]
    items = set.intersection(*map(set, forms)) if forms else set()
    return {item: sum(form[item] for form in forms) / len(forms) for item in sorted(items)}


def adjust(found: Sequence[Change]) -> list[Change]:
    """With Holm's correction over all of them."""
    adjusted = holm({index: change.p_value for index, change in enumerate(found)})
    return [replace(change, p_adjusted=adjusted[index]) for index, change in enumerate(found)]


def _change(first: Checkpoint, second: Checkpoint, task: str, variant: str,
            before: Mapping[str, float], after: Mapping[str, float]) -> Change | None:
    items = sorted(before.keys() & after.keys())
    if not items:
        return None
    a, b = [before[item] for item in items], [after[item] for item in items]
    return Change(
        first.key, second.key, task, variant, sum(a) / len(a), sum(b) / len(b), paired_bootstrap(b, a, draws=DRAWS),
        len(items), sum(y > x for x, y in zip(a, b, strict=True)), sum(y < x for x, y in zip(a, b, strict=True)),
        _p_value(a, b, DRAWS))


def _p_value(first: Sequence[float], second: Sequence[float], draws: int) -> float:
    right_or_wrong = all(value in (0.0, 1.0) for value in (*first, *second))
    test = mcnemar(second, first) if right_or_wrong else paired_permutation(second, first, draws=draws)
    return test.p_value
