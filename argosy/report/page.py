"""report.html: one file with everything in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.comparison.text import p_text
from argosy.contamination.verdict import LIKELY, Seen, summary
from argosy.report.checkpoints import Checkpoint
from argosy.report.cleaning import cleaning
from argosy.report.comparison import Comparison, TaskComparison
from argosy.report.curves import curves
from argosy.report.samples import Asked, Key, PairSamples
from argosy.report.stages import Stage, costs
from argosy.report.summary import glance
from argosy.report.tables import Table, accuracy_table, measures_table, prefix_tables
from argosy.report.verdict import sentences
from argosy.report.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
STYLE = _TEMPLATES / "report.css"


@dataclass(frozen=True)
class Page:
    """What a report is made of; all but the comparison may be empty.

    Attributes:
        line: name of the model line.
        out: the directory that links are relative to.
        asked: the questions of the samples, where they could be made again.
    """

    comparison: Comparison
    out: Path
    line: str = ""
    stages: Sequence[Stage] = ()
    cleaned: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[PairSamples] = ()
    asked: Mapping[Key, Asked] = field(default_factory=dict)


def render(page: Page) -> str:
    """The HTML: no script, font or image from elsewhere, and text of the data cannot become markup."""
    found = page.comparison
    return environment().get_template("report.html.j2").render(
        page=page,
        css=STYLE.read_text(encoding="utf-8"),
        script=(_TEMPLATES / "report.js").read_text(encoding="utf-8"),
        labels={c.key: c.label for c in found.checkpoints.every},
        checkpoints={c.key: c for c in found.checkpoints.every},
        sentences=sentences(found),
        glance=glance(found),
        tables=_tables(found),
        curves=[(title, [chart.draw() for chart in charts]) for title, charts in curves(found, page.stages)],
        cleaning=cleaning(page.cleaned),
        costs=costs(page.stages, page.out),
        held=_before_and_after(page.stages),
        left_out=_left_out(found.checkpoints.evaluated),
    )


def environment() -> Environment:
    """Renders the templates beside this module; text of the data cannot become markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"visible": visible, "points": lambda value: f"{100 * value:+.1f}", "pct": _percent,
                            "score_x": _score_x, "p": p_text, "seen_rows": _seen_rows, "seen_summary": summary}
    return environment


def _score_x(score: float) -> float:
    """Where a contamination score is drawn, of 132 in width: those of -0.25 to 1 have room."""
    return round(2 + 128 * (min(1.0, max(-0.25, score)) + 0.25) / 1.25, 1)


def _seen_rows(tasks: Sequence[TaskComparison], labels: Mapping[str, str]) -> list[tuple[str, str, Seen]]:
    """(benchmark, checkpoint, whether it was seen); within a benchmark those that likely have seen it first."""
    return [(task.task, labels[s.checkpoint], s.seen) for task in tasks
            for s in sorted(task.suspicions, key=lambda s: s.level != LIKELY)]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _tables(found: Comparison) -> list[Table]:
    checkpoints = found.checkpoints.evaluated
    marks = {key: "seen" for task in found.tasks for key in task.seen}
    marks |= {task.best: "best" for task in found.tasks if task.best}
    tasks = [task.task for task in found.tasks]
    named = sorted({name.split("/")[1] for c in checkpoints for name in c.metrics if name.startswith("bench/")})
    parts = {f"{task}_{row.lang}" for c in checkpoints for (task, _), answers in c.answers.items()
             for row in answers.rows}
    others = [name for name in named if name not in tasks and name not in parts]  # lm-eval's own tasks
    made = [accuracy_table(checkpoints, task, marks) for task in [*tasks, *others]]
    made += [measures_table(checkpoints, task, marks) for task in [*tasks, *others]]
    return [table for table in made if table] + prefix_tables(checkpoints, marks)


def _before_and_after(stages: Sequence[Stage]) -> list[tuple[str, str, float, float]]:
    """(stage, measure, before, after) of what post-training steps measure on data held out."""
    found = []
    for stage in stages:
        metrics = stage.outputs.get("metrics", {})
        for name in sorted(name.removesuffix("/before") for name in metrics if name.endswith("/before")):
            if f"{name}/after" in metrics:
                found.append((stage.name, name.removeprefix("heldout/"), metrics[f"{name}/before"],
                              metrics[f"{name}/after"]))
    return found


def _left_out(checkpoints: Sequence[Checkpoint]) -> list[tuple[str, str]]:
    """What took no part in an evaluation: (checkpoints, what), equal ones together."""
    found: dict[str, list[str]] = {}
    for c in checkpoints:
        for where, reasons in sorted(c.left_out.items()):
            for reason, n in sorted(reasons.items()):
                found.setdefault(f"{where}: {n} × {reason}", []).append(c.label)
    return [("every checkpoint" if len(names) == len(checkpoints) else ", ".join(names), what)
            for what, names in found.items()]
