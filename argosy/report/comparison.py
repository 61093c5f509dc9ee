"""All that is compared: the numbers behind report.html, comparison.json and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from argosy.report.checkpoints import Checkpoint, Checkpoints
from argosy.report.contamination import Suspicion, suspicions
from argosy.report.forgetting import TextChange, text_changes
from argosy.report.leads import PLAIN, Lead, pair_leads
from argosy.report.paired import ALL_FORMS, Change, adjust, changes


@dataclass(frozen=True)
class Standing:
    """A checkpoint's accuracy over all forms of a task, which is what ranks it, and on the published form."""

    checkpoint: str
    over_forms: float
    plain: float | None
    items: int


@dataclass
class TaskComparison:
    """One benchmark.

    Attributes:
        forms: variants that every ranked checkpoint was asked in.
        standings: last checkpoints of the stages, the best first, those that have seen the test included.
        best: the first of those that have not.
        others: from the best to each other candidate, over all forms; Holm-corrected over them.
        stages: from the stage before to each stage; over all forms Holm-corrected over the stages, single forms
            over the forms of a stage.
    """

    task: str
    forms: list[str]
    standings: list[Standing] = field(default_factory=list)
    best: str | None = None
    others: list[Change] = field(default_factory=list)
    stages: list[Change] = field(default_factory=list)
    suspicions: list[Suspicion] = field(default_factory=list)
    pairs: list[Lead] = field(default_factory=list)

    @property
    def seen(self) -> set[str]:
        """Keys of the checkpoints that have seen the test."""
        return {s.checkpoint for s in self.suspicions if s.level == "seen"}


@dataclass
class Comparison:
    """Everything, by task and by stage."""

    checkpoints: Checkpoints
    tasks: list[TaskComparison]
    texts: list[TextChange]


def compare(checkpoints: Checkpoints) -> Comparison:
    """Compare what is there; what is missing makes it shorter."""
    names = sorted({task for c in checkpoints.finals for task in c.tasks})
    return Comparison(checkpoints, [_task(checkpoints, name) for name in names],
                      text_changes(_stage_pairs(checkpoints)))


def _stage_pairs(checkpoints: Checkpoints) -> list[tuple[Checkpoint, Checkpoint]]:
    known = {c.key: c for c in checkpoints.evaluated}
    return [(known[c.base], c) for c in checkpoints.finals if c.base in known]


def _task(checkpoints: Checkpoints, task: str) -> TaskComparison:
    asked = [c for c in checkpoints.finals if task in c.tasks]
    forms = [v for v in asked[0].variants(task) if all((task, v) in c.answers for c in asked)]
    found = TaskComparison(task, forms, suspicions=suspicions(asked, task), pairs=pair_leads(asked, task))
    found.standings = sorted((_standing(c, task, forms) for c in asked), key=lambda s: (-s.over_forms, s.checkpoint))
    found.best = next((s.checkpoint for s in found.standings if s.checkpoint not in found.seen), None)
    if found.best is not None:
        candidates = [c for c in asked if c.key not in found.seen and c.key != found.best]
        found.others = _whole_only(checkpoints[found.best], candidates, task)
    found.stages = _stages([(a, b) for a, b in _stage_pairs(checkpoints) if task in a.tasks and task in b.tasks], task)
    return found


def _standing(c: Checkpoint, task: str, forms: Sequence[str]) -> Standing:
    values = [sum(of.values()) / len(of) for form in forms if (of := c.answers[task, form].by_item)]
    published = c.answers[task, PLAIN].by_item if (task, PLAIN) in c.answers else None
    plain = sum(published.values()) / len(published) if published else None
    items = max((len(c.answers[task, form].by_item) for form in forms), default=0)
    return Standing(c.key, sum(values) / len(values) if values else 0.0, plain, items)


def _whole_only(best: Checkpoint, others: Sequence[Checkpoint], task: str) -> list[Change]:
    found = [change for other in others for change in changes(best, other, task)[:1] if change.variant == ALL_FORMS]
    return adjust(found)


def _stages(pairs: Sequence[tuple[Checkpoint, Checkpoint]], task: str) -> list[Change]:
    found = [change for a, b in pairs for change in changes(a, b, task)]
    whole = iter(adjust([change for change in found if change.variant == ALL_FORMS]))
    return [replace(next(whole)) if change.variant == ALL_FORMS else change for change in found]
