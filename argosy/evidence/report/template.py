"""The pages of a comparison: templates with filters that show contrasts, verdicts and contamination."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from argosy.core.statistics.decisions import DECISION, NAMES, TABLE
from argosy.evidence.compare.changes import task_of
from argosy.evidence.compare.checkpoints import HELDOUT
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.traces import Suspect
from argosy.evidence.compare.words import difference_text, meaning, p_text, tested_text, unit_of, value_text
from argosy.evidence.report import page
from argosy.evidence.results.contamination import LIKELY, Seen, summary


def render(name: str, **values: Any) -> str:
    """Render the page of a comparison (argosy.evidence.report.page)."""
    words: dict[str, Callable[..., Any]] = {
        "points": lambda value: f"{100 * value:+.1f}", "score_x": _score_x, "p": p_text, "seen_rows": _seen_rows,
        "seen_summary": summary, "value": value_text, "difference": difference_text, "meaning": meaning,
        "unit": unit_of, "channel": lambda c: c.name.removeprefix(HELDOUT), "form": lambda c: task_of(c)[1],
        "task": lambda c: task_of(c)[0],
    }  # fmt: skip
    return page.render(name, words, hint=hint, table_method=NAMES[TABLE], decision_method=NAMES[DECISION], **values)


def hint(c: Contrast) -> str:
    """A change in a line, for the pointer that hovers."""
    n = f"{c.tested.n} questions of both, paired" if c.how == "paired" else c.how
    return f"{c.name}: {tested_text(c)} (corrected), {n}: {meaning(c)}"


def _score_x(score: float) -> float:
    """The place of a contamination score, of 132 in width: those of -0.25 to 1 have room."""
    return round(2 + 128 * (min(1.0, max(-0.25, score)) + 0.25) / 1.25, 1)


def _seen_rows(tasks: Iterable[Suspect], labels: Mapping[str, str]) -> list[tuple[str, str, Seen]]:
    """(benchmark, checkpoint, whether it was seen); within a benchmark those that likely have seen it first."""
    return [(task.task, labels[s.checkpoint], s.seen) for task in tasks
            for s in sorted(task.suspicions, key=lambda s: s.level != LIKELY)]
