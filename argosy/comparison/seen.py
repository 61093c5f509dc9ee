"""Whether what is compared has seen the tests: the report's own section, for these checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from argosy.comparison.entry import Entry
from argosy.comparison.fitted import FEW, NARROW, NARROWEST, fitted, letter
from argosy.comparison.text import p_text
from argosy.contamination.verdict import LIKELY, WORDS
from argosy.report.comparison import TaskComparison
from argosy.report.contamination import suspicions
from argosy.report.leads import pair_leads
from argosy.report.visible import visible

if TYPE_CHECKING:
    from argosy.comparison.compared import Compared

_HEADINGS = ("SEEN THE TEST?", "BENCHMARK", "", "SCORE [95 %]", "PROBABILITY", "P", "ITEMS")


def seen(entries: Sequence[Entry]) -> list[TaskComparison]:
    """By benchmark, the score of each checkpoint, and traces and leads of those that have items."""
    checkpoints = {e.chosen.key: e.chosen for e in entries}
    asked = list(checkpoints.values())
    tasks = sorted({task for c in asked for task in c.seen})
    made = [TaskComparison(task, [], suspicions=suspicions(asked, task), pairs=pair_leads(asked, task))
            for task in tasks]
    return [task for task in made if task.suspicions]


def seen_lines(found: Compared, wide: int, *, everything: bool) -> list[str]:
    """For a terminal: every score, likely ones first; of many, a few of the others without `everything`."""
    names = {e.chosen.key: f"{letter(n)} {visible(e.label)}" for n, e in enumerate(found.entries)}
    every = [(names[s.checkpoint], task.task, s.seen) for task in found.seen for s in task.suspicions if s.seen.found]
    every.sort(key=lambda each: each[2].verdict != LIKELY)
    shown = [each for n, each in enumerate(every) if everything or n < FEW or each[2].verdict == LIKELY]
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for who, task, seen in shown:
        s = seen.found
        assert s is not None
        rows.append((who, visible(task), WORDS[seen.verdict], seen.interval, f"{s.probability:.2f}", p_text(s.p_value),
                     str(s.items)))
    if wide < NARROW:
        rows = [(*row[:3], row[3].partition(" [")[0], *row[4 : 6 if wide >= NARROWEST else 5]) for row in rows]
    more = [f"… and {len(every) - len(shown)} more, which are not likely (--all)"] if len(every) > len(shown) else []
    return [*fitted(rows, wide, (0, 1), right=range(3, len(rows[0]))), *more] if shown else []
