"""Two checkpoints on the same items: what changed, in each form of the question and over all forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.report.checkpoints import Checkpoint
from argosy.statistics import Interval, holm, mcnemar, paired_bootstrap, paired_permutation

ALPHA = 0.05
DRAWS = 4000
ALL_FORMS = "all forms"


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
    """A change for each form that both were asked in, Holm-corrected over the forms; over all forms comes first.

    The change over all forms is one test and is not corrected here: who makes several of them corrects over those.
    """
    common = [variant for variant in second.variants(task) if (task, variant) in first.answers]
    found = [_change(first, second, task, v, first.answers[task, v].by_item, second.answers[task, v].by_item)
             for v in common]
    each = adjust([change for change in found if change is not None])
    whole = _change(first, second, task, ALL_FORMS, over_forms(first, task, common), over_forms(second, task, common))
    return [whole, *each] if whole else each


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
    right_or_wrong = all(value in (0.0, 1.0) for value in (*a, *b))
    test = mcnemar(b, a) if right_or_wrong else paired_permutation(b, a, draws=DRAWS)
    return Change(
        first.key, second.key, task, variant, sum(a) / len(a), sum(b) / len(b), paired_bootstrap(b, a, draws=DRAWS),
        len(items), sum(y > x for x, y in zip(a, b, strict=True)), sum(y < x for x, y in zip(a, b, strict=True)),
        test.p_value)
