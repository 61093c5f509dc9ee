"""All that is compared: the numbers behind report.html, comparison.json and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from argosy.contamination.verdict import LIKELY
from argosy.report.checkpoints import Checkpoint, Checkpoints
from argosy.report.contamination import Suspicion, suspicions
from argosy.report.forgetting import TextChange, not_compared, text_changes
from argosy.report.leads import PLAIN, Lead, pair_leads
from argosy.report.paired import (
    DRAWS,
    HEADLINE,
    Change,
    adjust,
    changes,
    headline_change,
    headline_p_value,
    other_questions,
    over_forms,
)
from argosy.statistics import holm


@dataclass(frozen=True)
class Standing:
    """A checkpoint's headline, which is what ranks it, and its accuracy on the published form.

    Attributes:
        headline: share of right answers, for each item the mean over the headline's forms, over the items that every
            checkpoint was asked in all of them.
    """

    checkpoint: str
    headline: float
    plain: float | None
    items: int


@dataclass
class TaskComparison:
    """One benchmark.

    Attributes:
        forms: variants that every ranked checkpoint was asked in.
        headline: those of them that ask for knowledge; their mean ranks, and is what ranks are tested by.
        standings: last checkpoints of the stages, the best first, those that have seen the test included.
        best: the first of those that have not.
        others: the headline, from the best to each other candidate. Whoever is best by chance would have been
            selected, so these are Holm-corrected over all pairs of candidates.
        stages: from the stage before to each stage; the headline Holm-corrected over the stages, single forms over
            the forms of a stage.
    """

    task: str
    forms: list[str]
    headline: list[str] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    best: str | None = None
    others: list[Change] = field(default_factory=list)
    stages: list[Change] = field(default_factory=list)
    suspicions: list[Suspicion] = field(default_factory=list)
    pairs: list[Lead] = field(default_factory=list)

    @property
    def seen(self) -> set[str]:
        """Keys of the checkpoints that have likely seen the test."""
        return {s.checkpoint for s in self.suspicions if s.level == LIKELY}


@dataclass
class Comparison:
    """Everything, by task and by stage."""

    checkpoints: Checkpoints
    tasks: list[TaskComparison]
    texts: list[TextChange]


def compare(checkpoints: Checkpoints) -> Comparison:
    """Compare what is there; what is missing makes it shorter, and is noted."""
    names = sorted({task for c in checkpoints.finals for task in c.tasks})
    pairs = _stage_pairs(checkpoints)
    notes = [*not_compared(pairs), *(note for a, b in pairs for note in other_questions(a, b))]
    checkpoints.notes += [note for note in notes if note not in checkpoints.notes]
    return Comparison(checkpoints, [_task(checkpoints, name) for name in names], text_changes(pairs))


def _stage_pairs(checkpoints: Checkpoints) -> list[tuple[Checkpoint, Checkpoint]]:
    known = {c.key: c for c in checkpoints.evaluated}
    return [(known[c.base], c) for c in checkpoints.finals if c.base in known]


def _task(checkpoints: Checkpoints, task: str) -> TaskComparison:
    asked = [c for c in checkpoints.finals if task in c.tasks]
    forms = [v for v in asked[0].variants(task) if all((task, v) in c.answers for c in asked)]
    headline = [v for v in forms if all(v in c.headline_of(task) for c in asked)] or forms
    found = TaskComparison(task, forms, headline, suspicions=suspicions(asked, task), pairs=pair_leads(asked, task))
    found.standings = sorted(_standings(asked, task, headline), key=lambda s: (-s.headline, s.checkpoint))
    found.best = next((s.checkpoint for s in found.standings if s.checkpoint not in found.seen), None)
    if found.best is not None:
        candidates = [c for c in asked if c.key not in found.seen]
        found.others = changes_from_best(found.best, candidates, task, headline)
    found.stages = _stages([(a, b) for a, b in _stage_pairs(checkpoints) if task in a.tasks and task in b.tasks], task)
    return found


def _standings(asked: Sequence[Checkpoint], task: str, headline: Sequence[str]) -> Iterator[Standing]:
    scores = {c.key: over_forms(c, task, headline) for c in asked}
    items = set.intersection(*(set(of) for of in scores.values()))
    for c in asked:
        published = c.answers[task, PLAIN].by_item if (task, PLAIN) in c.answers else None
        plain = sum(published.values()) / len(published) if published else None
        value = sum(scores[c.key][item] for item in sorted(items)) / len(items) if items else 0.0
        yield Standing(c.key, value, plain, len(items))


def changes_from_best(
    key: str, candidates: Sequence[Checkpoint], task: str, headline: Sequence[str]
) -> list[Change]:
    """The headline's change from the best to each other candidate, Holm-corrected over all pairs of candidates."""
    pairs = list(combinations(candidates, 2))
    draws = max(DRAWS, 200 * len(pairs))  # the smallest p-value, 1 / draws, is far below 0.05 / pairs
    adjusted = holm({frozenset((a.key, b.key)): headline_p_value(a, b, task, headline, draws) for a, b in pairs})
    (best,) = [c for c in candidates if c.key == key]
    found = [headline_change(best, other, task, headline) for other in candidates if other is not best]
    return [replace(c, p_adjusted=adjusted[frozenset((c.first, c.second))]) for c in found if c is not None]


def _stages(pairs: Sequence[tuple[Checkpoint, Checkpoint]], task: str) -> list[Change]:
    found = [change for a, b in pairs for change in changes(a, b, task)]
    whole = iter(adjust([change for change in found if change.variant == HEADLINE]))
    return [next(whole) if change.variant == HEADLINE else change for change in found]
