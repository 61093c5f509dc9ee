"""Curves of a page: metrics over training, by checkpoint, by channel and by stage."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from argosy.corpus.text.display import short
from argosy.evidence.compare.changes import Comparison
from argosy.evidence.compare.checkpoints import Checkpoint, kind_among
from argosy.evidence.compare.entries import Compared, Entry, Point, points
from argosy.evidence.compare.metrics import Kind, families, kind_of, scale_of
from argosy.evidence.compare.words import is_percent, value_text
from argosy.evidence.report.chart import Chart, Scale, Series, on_axis, path_of, ticks
from argosy.evidence.report.pipeline import Stage
from argosy.evidence.report.probe import reliability
from argosy.evidence.report.tables import is_group

LEFT, RIGHT, TOP, BOTTOM = 38, 294, 10, 146
SPARK_WIDTH, SPARK_HEIGHT = 84, 22
MANY = 8  # points of a curve, from which on its beginning may be cut


Drawn = dict[str, Any]


def curves(found: Compared, by: str = "tokens") -> list[tuple[str, list[Drawn]]]:
    """Draw by family a chart for each metric that at least one line has at two checkpoints."""
    names = [n for n in found.metrics if any(len(points(e, n, by)) > 1 for e in found.entries)]
    charts = {name: _small(name, found.kinds[name], found.entries, by) for name in names}
    return [(family, [charts[n] for n in names if found.kinds[n].family == family]) for family in families(names)]


def axis(found: Compared) -> str:
    """`tokens`, or `step` where nothing says how many tokens were seen."""
    return "tokens" if any(c.tokens for e in found.entries for c in e.line) else "step"


def shared(entries: Sequence[Entry], number: int) -> int:
    """The number of checkpoints at the beginning of an entry's line an earlier entry's curve shows already: a branch is
    drawn from where it leaves, which is the last of them that both have."""
    earlier = {c.key for e in entries[:number] for c in e.line}
    count = next((i for i, c in enumerate(entries[number].line) if c.key not in earlier), len(entries[number].line))
    return max(0, count - 1)


def spark(entries: Sequence[Entry], name: str, by: str) -> list[tuple[int, str]]:
    """Tiny lines for a cell of the table: (entry, path)."""
    series = [(n, points(e, name, by, shared(entries, n))) for n, e in enumerate(entries)]
    series = [(n, p) for n, p in series if len(p) > 1]
    if not series:
        return []
    xs, ys = [q[0] for _, p in series for q in p], [q[1] for _, p in series for q in p]
    across, up = on_axis(min(xs), max(xs), 1, SPARK_WIDTH - 1), on_axis(min(ys), max(ys), SPARK_HEIGHT - 2, 2)
    return [(n, path_of([(across(q[0]), up(q[1])) for q in p])) for n, p in series]


def _small(name: str, kind: Kind, entries: Sequence[Entry], by: str) -> Drawn:
    """One chart; `chance`: the height of what guessing scores."""
    series = [(n, points(e, name, by, shared(entries, n))) for n, e in enumerate(entries)]
    series = [(n, p) for n, p in series if p]
    scale = 100.0 if is_percent(kind) else 1.0
    xs = [q[0] for _, p in series for q in p]
    late = [q for _, p in series for q in _late(p, kind)]
    ys = sorted(scale * y for q in late for y in q[1:] if y is not None and math.isfinite(y))
    chance = next((c for e in entries if (c := e.chosen.chance(name)) is not None), None)
    ys = sorted([*ys, scale * chance]) if chance is not None and math.isfinite(chance) else ys
    y_ticks = ticks(ys[0], ys[-1], 4)
    said = "; ".join(f"{entries[n].label}: {value_text(kind, p[0][1])} to {value_text(kind, p[-1][1])}"
                     for n, p in series)
    series = [(n, _below(p, y_ticks[-1] / scale)) for n, p in series]
    across, up = on_axis(min(xs), max(xs), LEFT, RIGHT), on_axis(y_ticks[0] / scale, y_ticks[-1] / scale, BOTTOM, TOP)
    lines = [_line(n, p, entries[n], kind, by, across, up) for n, p in series]
    labels = [(across(x), short(x)) for x in ticks(min(xs), max(xs), 4) if min(xs) <= x <= max(xs)]
    return {"name": name, "title": kind.short, "unit": "%" if scale == 100 else kind.unit, "x_ticks": labels,
            "y_ticks": [(up(y / scale), short(y)) for y in y_ticks], "lines": lines, "summary": said,
            "chance": up(chance) if chance is not None and math.isfinite(chance) else None}


def _late(found: Sequence[Point], kind: Kind) -> Sequence[Point]:
    """The points that the y axis is made for: of losses, which fall steeply at first, the last three quarters."""
    if kind.sign >= 0 or kind.share or kind.centred or len(found) < MANY:
        return found
    return found[len(found) // 4 :]


def _below(found: list[Point], top: float) -> list[Point]:
    """Cut the beginning that lies above the axis; the line comes in at its top."""
    start = next((i for i, q in enumerate(found) if q[1] <= top), 0)
    inside = [(x, y, low, None if high is None else min(high, top)) for x, y, low, high in found[start:]]
    if not start:
        return inside
    (x1, y1, *_), (x2, y2, *_) = found[start - 1], found[start]
    return [(x1 + (x2 - x1) * (y1 - top) / (y1 - y2), top, None, None), *inside]


def _line(number: int, found: Sequence[Point], entry: Entry, kind: Kind, by: str, across: Scale, up: Scale) -> Drawn:
    """An entry's curve as paths in the view box; dots: of the chosen checkpoint, and of all where there are few; tip: x
    in the view box, its name in the tooltip, its value."""
    at = [(across(q[0]), up(q[1])) for q in found]
    banded = [q for q in found if q[2] is not None and q[3] is not None]
    band = ""
    if len(banded) > 1:
        top = [(across(q[0]), up(q[3])) for q in banded if q[3] is not None]
        low = [(across(q[0]), up(q[2])) for q in reversed(banded) if q[2] is not None]
        band = path_of([*top, *low]) + "Z"
    chosen = float(entry.chosen.step if by == "step" else entry.chosen.tokens)
    dots = [(*place, q[0] == chosen) for place, q in zip(at, found, strict=True) if q[0] == chosen or len(found) < 4]
    known = {float(c.step if by == "step" else c.tokens) for c in entry.line}
    tip: list[list[object]] = [[place[0], f"{short(q[0])} {by}", _tip(kind, q)]
                               for place, q in zip(at, found, strict=True) if q[0] in known]
    return {"entry": number, "path": path_of(at), "band": band, "dots": dots, "tip": tip}


def _tip(kind: Kind, q: Point) -> str:
    text = value_text(kind, q[1])
    return text if q[2] is None else f"{text} [{value_text(kind, q[2])}, {value_text(kind, q[3])}]"


_OF_PHASES = (("train/loss/", "Training loss by channel", "nats a token"),
              ("heldout/bpb/", "Held-out text by channel", "bits a byte, lower is better"),
              ("perf/tokens_per_second", "Training speed", "tokens a second, evaluations and exports aside"),
              ("time/", "Time of a step by part", "milliseconds, means since the last log"))

# Of post-training, by what the metric's name ends in; in this order. Others are in MLflow.
POSTTRAINING = (("rlhf/reward", "Mean reward of the answers"), ("rlhf/kl", "KL to the start, nats a token"),
                ("train/loss", "Loss"), ("train/accuracy", "Pairs ranked right"),
                ("rlhf/length", "Length of answers, tokens"),
                ("perf/generated_tokens_per_second", "Generation, tokens a second"))


def stage_curves(found: Comparison, stages: Sequence[Stage]) -> list[tuple[str, list[Chart]]]:
    """Groups of charts with a heading; those that there is nothing to draw for are left out."""
    groups = [("Training", list(_pretraining(stages))), ("Over the checkpoints", list(_checkpoints(found))),
              ("Calibration", list(reliability(found.checkpoints.finals))),
              ("After pretraining", list(_posttraining(stages))), ("Further stages", list(_further(stages)))]
    return [(title, charts) for title, charts in groups if charts]


def _pretraining(stages: Sequence[Stage]) -> Iterator[Chart]:
    for phases in _lines([s for s in stages if s.curves.get("train/tokens")]):
        name = phases[0].name if len(phases) == 1 else f"{phases[0].name} to {phases[-1].name}"
        marks = [(s.tokens_at(0) or 0.0, s.name) for s in phases]
        for prefix, title, note in _OF_PHASES:
            names = sorted({each for s in phases for each in s.curves if each.startswith(prefix)})
            series = [Series(each.removeprefix(prefix).removesuffix("_ms") or "all processes",
                             [(x, value) for s in phases for step, value in s.curves.get(each, ())
                              if (x := s.tokens_at(step)) is not None]) for each in names]
            if series:
                yield Chart(f"{title}: {name}", note, "tokens", series, marks)


def _lines(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Each phase that nothing continues, with those before it."""
    known = {s.digest: s for s in stages}
    before = {s.digest: next(iter(s.made_from["upstream"].get("checkpoint", [])), "") for s in stages}
    found = []
    for last in (s for s in stages if s.digest not in before.values()):
        line = [last]
        while before[line[0].digest] in known:
            line.insert(0, known[before[line[0].digest]])
        found.append(line)
    return found


def _checkpoints(found: Comparison) -> Iterator[Chart]:
    main = _main_line(found)
    names = {float(c.tokens): c.label for c in main}
    marks = [(float(c.tokens), c.label) for c in main if c.final]
    for task in found.tasks:
        forms = sorted({form for c in main for form in c.variants(task.task)}, key=lambda form: (form != "plain", form))
        series = [_over(main, form, f"bench/{task.task}/{form}/acc") for form in forms]
        series = [s for s in series if len(s.points) > 1]
        if series:
            chance = next((c for of in main for form in of.variants(task.task)
                           if (c := of.chance(f"bench/{task.task}/{form}/acc"))), None)
            yield Chart(f"Accuracy on {task.task} by form", "share right", "tokens", series, marks,
                        (chance, "chance") if chance else None, "%", names)
    yield from _probes(main, names, marks)


def _over(main: Sequence[Checkpoint], name: str, metric: str) -> Series:
    return Series(name, [(c.tokens, c.metrics[metric]) for c in main if metric in c.metrics])


def _main_line(found: Comparison) -> list[Checkpoint]:
    """Evaluated checkpoints up to the highest one, or to the last one where no benchmark ranks them."""
    evaluated = found.checkpoints.evaluated
    if not evaluated:
        return []
    best = next((task.highest for task in found.tasks if task.highest), evaluated[-1].key)
    return [c for c in found.checkpoints.line(found.checkpoints[best]) if c.metrics]


def _probes(main: Sequence[Checkpoint], names: dict[float, str], marks: list[tuple[float, str]]) -> Iterator[Chart]:
    """A chart a scale, of one metric a probe: of those with a direction a share, else a probability, else another."""
    kinds = {name: kind_among(name, main) for c in main for name in c.metrics
             if name.startswith("probe/") and not is_group(name)}
    told = {name: kind for name, kind in kinds.items() if kind.sign and not kind.minor}
    ordered = sorted(told, key=lambda name: (not told[name].share, not told[name].probability, name))
    chosen = {name.rpartition("/")[0]: name for name in reversed(ordered)}
    for scale in dict.fromkeys(scale_of(name, told[name]) for name in ordered):
        metrics = sorted(name for name in chosen.values() if scale_of(name, told[name]) == scale)
        series = [_over(main, name.split("/", 2)[2], name) for name in metrics]
        series = [s for s in series if len(s.points) > 1]
        if series:
            title = {"%": "shares", "probability": "probabilities"}.get(scale, scale)
            better = {told[name].sign for name in metrics}
            note = "lower is better" if better == {-1} else "higher is better" if better == {1} else ""
            yield Chart(f"Probes: {title}", note, "tokens", series, marks, None, "%" if scale == "%" else "", names)


def _posttraining(stages: Sequence[Stage]) -> Iterator[Chart]:
    after = [s for s in stages if s.outputs.get("exports") and not s.curves.get("train/tokens")]
    for step in dict.fromkeys(s.made_from["step"] for s in after):
        same = [s for s in after if s.made_from["step"] == step]
        for metric, title in POSTTRAINING:
            series = [Series(s.name, [(float(x), y) for x, y in s.curves[metric]]) for s in same if metric in s.curves]
            series = [s for s in series if len(s.points) > 1]
            if series and not (metric == "train/loss" and step == "rlhf"):
                yield Chart(f"{step}: {title}", "over optimiser steps", "steps", series,
                            unit="%" if kind_of(metric).share else "")
        yield from _times(step, same)


def _further(stages: Sequence[Stage]) -> Iterator[Chart]:
    """A chart for each metric that a step declares and logs at several steps."""
    for stage in stages:
        for name, _, unit in stage.measures:
            points = [(float(x), y) for x, y in stage.curves[name]]
            if len(points) > 1:
                yield Chart(f"{stage.name}: {name}", unit, "steps", [Series(stage.name, points)],
                            unit="%" if unit == "%" else "")


def _times(step: str, same: Sequence[Stage]) -> Iterator[Chart]:
    """A chart a stage that measures the parts of its steps."""
    for stage in same:
        series = [Series(name.removeprefix("time/").removesuffix("_ms"), [(float(x), y) for x, y in points])
                  for name, points in sorted(stage.curves.items())
                  if name.startswith("time/") and name.endswith("_ms") and len(points) > 1]
        if series:
            yield Chart(f"{step}: Time of a step by part: {stage.name}", "milliseconds, means since the last log",
                        "steps", series)
