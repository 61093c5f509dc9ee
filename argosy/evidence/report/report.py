"""The pages of a comparison: the report of a pipeline, and the page of `argosy compare`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.core.config.explain import grouped
from argosy.core.store.files import read_record
from argosy.core.store.step_files import WATCH
from argosy.corpus.tokens.epochs import read_table
from argosy.evidence.compare.changes import Comparison
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import SECTIONS, Compared
from argosy.evidence.compare.metrics import families
from argosy.evidence.compare.sentences import seen_by, sentences, stage_sentences
from argosy.evidence.compare.watch import watched
from argosy.evidence.compare.words import PROMISE, TITLES
from argosy.evidence.report.chart import draw
from argosy.evidence.report.cleaning import MUCH, cleaning
from argosy.evidence.report.curves import axis, curves, spark, stage_curves
from argosy.evidence.report.items import Asked, Differing, Key, differing, embedded
from argosy.evidence.report.ledger import Scale, overview, rows, scoreboard
from argosy.evidence.report.page import as_script
from argosy.evidence.report.pipeline import Stage, costs, goodputs
from argosy.evidence.report.tables import Table, accuracy_table, glance, measures_table, prefix_tables, render

FEW = 6  # lines of a list before the rest is folded


@dataclass(frozen=True)
class ComparisonPage:
    """A page in the making: the questions that it will show can be asked for before it is rendered."""

    found: Compared
    differing: Differing

    @classmethod
    def of(cls, found: Compared) -> "ComparisonPage":
        """Look for what differs."""
        return cls(found, differing(found.entries))

    def wanted(self) -> list[Key]:
        """Questions whose text is to be shown."""
        return self.differing.chosen

    def render(self, asked: Mapping[Key, Asked] | None = None) -> str:
        """The HTML. `asked`: what the questions were, as far as they could be made again."""
        found, by = self.found, axis(self.found)
        labels = {e.chosen.key: e.label for e in found.entries}
        contrasts = [c for pair in found.pairs for c in pair.contrasts]
        data = embedded(self.differing, asked or {})
        every = rows(found)
        families_of = [(family, [row for row in every if row.kind.family == family])
                       for family in families([row.name for row in every])]
        return render("compare.html.j2", found=found, by=by, labels=labels, sentences=sentences(found),
                      scale=Scale(contrasts), sections=SECTIONS, titles=TITLES, few=FEW, rows=families_of,
                      board=scoreboard(every), spark=lambda n: spark(found.entries, n, by), charts=curves(found, by),
                      seen=found.seen, watched=watched(found, by), items=data, promise=PROMISE, seen_by=seen_by,
                      data=as_script({**data, "labels": [e.label for e in found.entries], **overview(found, by)}))


@dataclass(frozen=True)
class Page:
    """The material of a report; all but the comparison may be empty."""

    comparison: Comparison
    out: Path
    """the directory that links are relative to"""
    line: str = ""
    """name of the model line"""
    stages: Sequence[Stage] = ()
    cleaned: Mapping[str, Any] = field(default_factory=dict)


def render_report(page: Page) -> str:
    """The HTML: no script, font or image from elsewhere."""
    found = page.comparison
    return render(
        "report.html.j2", page=page,
        labels={c.key: c.label for c in found.checkpoints.every},
        sentences=stage_sentences(found), glance=glance(found), tables=_tables(found),
        curves=[(title, [draw(chart) for chart in charts]) for title, charts in stage_curves(found, page.stages)],
        cleaning=cleaning(page.cleaned), much=MUCH, costs=costs(page.stages, page.out),
        goodput=goodputs(page.stages),
        epochs=[(stage.name, table) for stage in page.stages if (table := read_table(stage.directory))],
        tokens=[(stage.name, read_record(stage.directory / "report.json").get("channels", {}))
                for stage in page.stages if stage.made_from["step"] == "tokenize"],
        held=_before_and_after(page.stages),
        measured=[(stage.name, *row) for stage in page.stages for row in stage.measures],
        answers=[stage for stage in page.stages if stage.samples],
        troubled=[(stage.name, [*made, *seen.get("stragglers", [])]) for stage in page.stages
                  if (made := (seen := read_record(stage.directory / WATCH)).get("decisions")) is not None],
        left_out=_left_out(found.checkpoints.evaluated))


def _tables(found: Comparison) -> list[Table]:
    checkpoints = found.checkpoints.evaluated
    marks = {key: "seen" for task in found.tasks for key in task.seen}
    marks |= {task.best: "best" for task in found.tasks if task.best}
    tasks = [task.task for task in found.tasks]
    named = sorted({name.split("/")[1] for c in checkpoints for name in c.metrics if name.startswith("bench/")})
    parts = {f"{task}_{lang}" for c in checkpoints for task in c.tasks for lang in c.rows.langs(task).values()}
    others = [name for name in named if name not in tasks and name not in parts]  # lm-eval's own tasks
    made = [accuracy_table(checkpoints, task, marks) for task in [*tasks, *others]]
    made += [measures_table(checkpoints, task, marks) for task in [*tasks, *others]]
    return [table for table in made if table] + prefix_tables(checkpoints, marks)


def _before_and_after(stages: Sequence[Stage]) -> list[tuple[str, str, float, float]]:
    """(stage, measure, before, after) of the measures of post-training steps on data held out."""
    found = []
    for stage in stages:
        metrics = stage.outputs.get("metrics", {})
        for name in sorted(name.removesuffix("/before") for name in metrics if name.endswith("/before")):
            if f"{name}/after" in metrics:
                found.append((stage.name, name.removeprefix("heldout/"), metrics[f"{name}/before"],
                              metrics[f"{name}/after"]))
    return found


def _left_out(checkpoints: Sequence[Checkpoint]) -> list[tuple[str, str]]:
    """The items that took no part in an evaluation: (checkpoints, what), equal ones together."""
    found = grouped((f"{where}: {n} × {reason}", c.label) for c in checkpoints
                    for where, reasons in sorted(c.left_out.items()) for reason, n in sorted(reasons.items()))
    return [("every checkpoint" if len(names) == len(checkpoints) else ", ".join(names), what)
            for what, names in found.items()]
