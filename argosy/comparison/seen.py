"""Whether what is compared has seen the tests: the report's own section, for these checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from argosy.comparison.entry import Entry
from argosy.report.comparison import TaskComparison
from argosy.report.contamination import suspicions
from argosy.report.leads import pair_leads


def seen(entries: Sequence[Entry]) -> list[TaskComparison]:
    """By benchmark, traces and leads of the checkpoints that have items; those with neither are left out."""
    checkpoints = {e.chosen.key: e.chosen for e in entries}
    asked = list(checkpoints.values())
    tasks = sorted({task for c in asked for task in c.tasks})
    made = [TaskComparison(task, [], suspicions=suspicions(asked, task), pairs=pair_leads(asked, task))
            for task in tasks]
    return [task for task in made if task.suspicions]
