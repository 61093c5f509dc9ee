"""Tables of checkpoints by metric, the report at a glance, and what templates show changes and verdicts with."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.core.statistics.decisions import DECISION, NAMES, TABLE
from argosy.corpus.text.display import plain
from argosy.evidence.compare import words
from argosy.evidence.compare.changes import Comparison, TaskComparison, is_headline, task_of
from argosy.evidence.compare.checkpoints import HELDOUT, Checkpoint
from argosy.evidence.compare.metrics import Kind, chances
from argosy.evidence.compare.suspicion import Suspect
from argosy.evidence.compare.test import Contrast
from argosy.evidence.report import page
from argosy.evidence.results.contamination import LIKELY, Seen, summary
from argosy.evidence.results.headline import form_text


@dataclass(frozen=True)
class Cell:
    """A value: its text, its interval, and the number to sort by."""

    text: str = "–"
    bounds: str = ""
    value: float | None = None
    shade: float = 0.0
    """its distance above chance, or its place among those that are compared (0 to 1)"""
    hint: str = "not measured"
    contrast: Contrast | None = None
    """contrast with the first of those that are compared"""


@dataclass(frozen=True)
class Line:
    """A checkpoint, in one language or channel (`group`); mark: `best`, `seen` or nothing."""

    label: str
    group: str
    final: bool
    mark: str
    cells: list[Cell]


@dataclass
class Table:
    """A table; a column is (name, note under it)."""

    title: str
    note: str
    columns: list[tuple[str, str]]
    lines: list[Line] = field(default_factory=list)

    @property
    def groups(self) -> list[str]:
        """The groups in their order; the script offers them as a choice where there are several."""
        return list(dict.fromkeys(line.group for line in self.lines))


def accuracy_table(checkpoints: Sequence[Checkpoint], task: str, marks: dict[str, str]) -> Table | None:
    """Accuracy by variant: all languages together, then each alone."""
    groups = _languages(checkpoints, task)
    return _benchmark(checkpoints, groups, marks, f"Accuracy on {task}",
                      "Right answers, % with the 95 % interval. Shaded by how far the value is above chance; "
                      "not shaded where the interval holds chance.", lambda measure: measure == "acc")


def measures_table(checkpoints: Sequence[Checkpoint], task: str, marks: dict[str, str]) -> Table | None:
    return _benchmark(checkpoints, _languages(checkpoints, task), marks, f"Other measures of {task}",
                      "Shares in %; gaps in nats; gains of learning in points; position bias from 0 (none) to 1.",
                      lambda measure: measure != "acc")


def prefix_tables(checkpoints: Sequence[Checkpoint], marks: dict[str, str]) -> list[Table]:
    """Probes, a table a suite, and held-out text. Parts of a probe are in `argosy compare` and in MLflow."""
    suites = sorted({name.split("/")[1] for c in checkpoints for name in c.metrics if name.startswith("probe/")})
    wanted = [(f"probe/{suite}/", f"Probes: {suite}" if suite != "probes" else "Probes",
               "What the model finds likely without being asked. Shares in %.") for suite in suites]
    wanted.append(("heldout/bpb/", "Held-out text", "Bits a byte, lower is better."))
    found = []
    for prefix, title, note in wanted:
        names = sorted({name for c in checkpoints for name in _measured(c, prefix) if not is_group(name)})
        lines = [Line(c.label, "", c.final, marks.get(c.key, ""), [cell(c, name) for name in names])
                 for c in checkpoints if any(name in c.metrics for name in names)]
        if lines:
            parts = (name.removeprefix(prefix).replace("_", " ").partition("/") for name in names)
            found.append(Table(title, note, [(first, rest) for first, _, rest in parts], lines))
    return found


def _measured(c: Checkpoint, prefix: str) -> set[str]:
    """The metrics of a checkpoint that begin so, without chances, which are of the questions."""
    kinds = {name: c.kind(name) for name in c.metrics if name.startswith(prefix)}
    return kinds.keys() - chances(kinds)


def is_group(name: str) -> bool:
    """Whether it is of a part of a probe, of which there may be many: a relation, a phenomenon, a format."""
    return name.startswith("probe/") and name.count("/") > 3


def number(kind: Kind, value: float) -> str:
    """A value without its unit, which the row or the column names."""
    return f"{100 * value:.1f}" if words.is_percent(kind, value) else plain(value)


def _bounds_text(kind: Kind, found: tuple[float, float] | None) -> str:
    """`52–61` of a share, else `±0.012`; "" where the interval is not known."""
    if found is None or not all(map(math.isfinite, found)):
        return ""
    if words.is_percent(kind):
        return f"{100 * found[0]:.0f}–{100 * found[1]:.0f}"
    return f"±{plain((found[1] - found[0]) / 2)}"


def cell(c: Checkpoint, name: str, kind: Kind | None = None) -> Cell:
    """A metric of a checkpoint, of the kind that it declares or of this one."""
    value, kind = c.metrics.get(name), kind or c.kind(name)
    if value is None or not math.isfinite(value):
        return Cell() if value is None else Cell("NaN")
    bounds, n, chance = c.interval(name), c.counts.get(name), c.chance(name)
    of = f"n = {n}" if n else ""
    shade = 0.0
    if kind.share and 0 <= value <= 1 and chance is not None:
        above = bounds is not None and bounds[0] > chance and chance < 1
        shade = (value - chance) / (1 - chance) if above else 0.0
        of += f", chance {100 * chance:.0f} %"
    text, inside = number(kind, value), _bounds_text(kind, bounds)
    hint = f"{c.label}, {name}: {text} {inside and f'[{inside}]'} {of}"
    return Cell(text, inside, value, round(shade, 3), hint.strip())


def _languages(checkpoints: Sequence[Checkpoint], task: str) -> list[tuple[str, str]]:
    """(name in the metrics, name in the table)."""
    langs = sorted({lang for c in checkpoints for lang in c.rows.langs(task).values() if lang})
    return [(task, "all"), *((f"{task}_{lang}", lang) for lang in langs if len(langs) > 1)]


def _benchmark(checkpoints: Sequence[Checkpoint], groups: Sequence[tuple[str, str]], marks: dict[str, str], title: str,
               note: str, wanted: Callable[[str], bool]) -> Table | None:
    task = groups[0][0]
    prefix = f"bench/{task}/"
    names = {tuple(name.removeprefix(prefix).split("/")) for c in checkpoints for name in _measured(c, prefix)}
    columns = sorted(((v, m) for v, m in (pair for pair in names if len(pair) == 2) if wanted(m)),
                     key=lambda column: (column[0] != "plain", column))
    heads = [(v.replace("_", " "), _under(checkpoints, f"{prefix}{v}/{m}")) for v, m in columns]
    table = Table(title, note, heads)
    for name, group in groups:
        for c in checkpoints:
            cells = [cell(c, f"bench/{name}/{v}/{m}") for v, m in columns]
            if any(found.value is not None for found in cells):
                table.lines.append(Line(c.label, group, c.final, marks.get(c.key, ""), cells))
    return table if table.lines else None


def _under(checkpoints: Iterable[Checkpoint], name: str) -> str:
    """The line below a column: the measure, except acc, and its chance."""
    measure = name.rpartition("/")[2]
    chance = next((found for c in checkpoints if (found := c.chance(name)) is not None), None)
    return ", ".join([*([measure.replace("_", " ")] if measure != "acc" else []),
                      *([f"chance {100 * chance:.0f}"] if chance is not None else [])])


MOST = 4  # benchmarks


@dataclass(frozen=True)
class Score:
    """A headline, whether it is the best, and how it changed from the stage before; `value` None: not asked."""

    value: float | None
    best: bool = False
    change: Contrast | None = None


@dataclass(frozen=True)
class Glance:
    """A checkpoint. forgotten, learnt: channels of held-out text, from the stage before; seen: verdict and words."""

    label: str
    scores: list[Score]
    forgotten: list[str]
    learnt: list[str]
    seen: tuple[str, str]


def glance(found: Comparison) -> tuple[list[TaskComparison], list[Glance]]:
    """The benchmarks that there is room for, and the lines."""
    tasks = [task for task in found.tasks if task.standings][:MOST]
    return tasks, [_glance(found, c, tasks) for c in found.checkpoints.finals]


def _glance(found: Comparison, c: Checkpoint, tasks: list[TaskComparison]) -> Glance:
    worse, better = ([t.name.removeprefix(HELDOUT) for t in found.texts if t.second == c.key and t.verdict == verdict]
                     for verdict in ("worse", "better"))
    return Glance(c.label, list(_scores(c, tasks)), worse, better, summary(c.seen))


def _scores(c: Checkpoint, tasks: list[TaskComparison]) -> Iterator[Score]:
    for task in tasks:
        value = next((s.headline for s in task.standings if s.checkpoint == c.key), None)
        change = next((s for s in task.stages if s.second == c.key and is_headline(s)), None)
        yield Score(value, task.best == c.key, change)


def render(name: str, **values: Any) -> str:
    """Render the page of a comparison (argosy.evidence.report.page), with filters for contrasts and verdicts."""
    filters: dict[str, Callable[..., Any]] = {
        "points": lambda value: f"{100 * value:+.1f}", "p": words.p_text, "seen_rows": _seen_rows,
        # the place of a contamination score, of 132 in width: those of -0.25 to 1 have room
        "score_x": lambda score: round(2 + 128 * (min(1.0, max(-0.25, score)) + 0.25) / 1.25, 1),
        "seen_summary": summary, "value": words.value_text, "difference": words.difference_text,
        "meaning": words.meaning, "task": lambda c: task_of(c)[0], "form_text": form_text,
        "unit": words.unit_of, "channel": lambda c: c.name.removeprefix(HELDOUT), "form": lambda c: task_of(c)[1],
    }  # fmt: skip
    return page.render(name, filters, hint=hint, table_method=NAMES[TABLE], decision_method=NAMES[DECISION], **values)


def hint(c: Contrast) -> str:
    """A change in a line, for the pointer that hovers."""
    n = f"{c.tested.n} questions of both, paired" if c.how == "paired" else c.how
    return f"{c.name}: {words.tested_text(c)} (corrected), {n}: {words.meaning(c)}"


def _seen_rows(tasks: Iterable[Suspect], labels: Mapping[str, str]) -> list[tuple[str, str, Seen]]:
    """(benchmark, checkpoint, whether it was seen); within a benchmark those that likely have seen it first."""
    return [(task.task, labels[key], seen) for task in tasks
            for key, seen in sorted(task.suspicions.items(), key=lambda each: each[1].verdict != LIKELY)]
