"""A sweep in the terminal, as JSON, and as a page with the losses over learning rates by size."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from argosy.core.statistics.decisions import DECISION, NAMES
from argosy.corpus.text.display import columns, short
from argosy.evidence.report.chart import BOTTOM, LEFT, RIGHT, TOP, Scale, on_axis, path_of, ticks
from argosy.evidence.report.page import render
from argosy.evidence.sweep.advice import Study
from argosy.evidence.sweep.compare import RATE, Ranked
from argosy.evidence.sweep.points import ALL, shown

COLOURS = 8
_RIGHT = (1, 3, 4, 5, 6)  # columns of numbers
_HEADER = ("size", "parameters", "setting", "loss", "standard error", "seeds", "behind", "verdict")
_VERDICTS = {"noise": "noise explains it", "one run": "one run: cannot tell"}


@dataclass(frozen=True)
class Dot:
    """A cell in the chart: its place, the ends of its error bar, and what is said of it."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Plot:
    """Coordinates of one chart in the view box of the pages' charts."""

    title: str
    note: str
    x_name: str
    lines: list[tuple[str, int, str, list[Dot]]]
    """Name, colour, path, dots."""
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def table(found: Mapping[str, Any]) -> str:
    """Return a row a setting of a `record`, the best of each size first."""
    head = ("SIZE", "PARAMETERS", "SETTING", "LOSS", "± SE", "SEEDS", "BEHIND", "VERDICT")
    rows = [_row(each) for each in found["settings"]]
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    right = [at for at, i in enumerate(kept) if i in _RIGHT]
    return columns([tuple(row[i] for i in kept) for row in (head, *rows)], right=right)


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    loss = "diverged" if each["mean"] is None else f"{each['mean']:.4f}"
    error = "" if each["standard_error"] is None else f"{each['standard_error']:.4f}"
    behind = f"{each['behind']:.4f}" if each["behind"] else ""
    verdict = "" if each["verdict"] == "diverged" else _VERDICTS.get(each["verdict"], each["verdict"])
    parameters = f"{each['parameters']:,}" if each["parameters"] else ""
    return (each["size"], parameters, each["label"], loss, error, str(each["runs"]), behind, verdict)


def record(study: Study) -> dict[str, Any]:
    """Return all numbers as JSON has them; what is not a number is null."""
    law = study.law
    found = {
        "channel": study.runs.channel, "axes": list(study.runs.axes),
        "points": [{"name": p.name, "settings": {name: p.value(name) for name in study.runs.axes},
                    "bpb": dict(p.losses), "parameters": p.parameters, "all_parameters": p.every_parameter}
                   for p in study.runs.points],
        "settings": [{"size": size, "label": each.cell.label, "settings": dict(each.cell.settings),
                      "parameters": max(point.parameters for point in each.cell.points), "mean": each.cell.mean,
                      "standard_error": each.cell.error, "runs": len(each.cell.points), "behind": each.difference,
                      "p": each.p, "verdict": each.verdict}
                     for size, ranked in study.ranked.items() for each in ranked],
        "optima": {size: asdict(each) for size, each in study.optima.items()},
        "law": law and {"exponent": asdict(law.exponent), "intercept": law.intercept, "misfit_p": law.misfit},
        "take": study.take, "sentences": [asdict(each) for each in study.sentences],
    }
    cleaned: dict[str, Any] = _finite(found)
    return cleaned


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return (float(f"{value:.6g}") if math.isfinite(value) else None) if isinstance(value, float) else value


def page(study: Study, line: str = "") -> str:
    """Return the page, one file that needs no network."""
    plots = [_rate_plot(study)] if study.curves else []
    plots += [_law_plot(study)] if study.law else []
    of = "the mean over channels" if study.runs.channel == ALL else f"the channel {study.runs.channel}"
    return render("sweep.html.j2", study=study, line=line, plots=[plot for plot in plots if plot.lines], of=of,
                  decision_method=NAMES[DECISION], header=_HEADER, rows=list(map(_row, record(study)["settings"])),
                  channels=_channels(study))


def _channels(study: Study) -> list[tuple[str, list[str]]]:
    """Give the losses of each point by channel: its name, then the values; the header first."""
    names = sorted({name for point in study.runs.points for name in point.losses})
    return [("point", names)] + [(point.name, [f"{point.losses[name]:.4f}" if name in point.losses else "–"
                                               for name in names]) for point in study.runs.points]


def _rate_plot(study: Study) -> Plot:
    """Draw the loss over the learning rate, a line for each size and each of the other settings."""
    groups: dict[str, list[Ranked]] = {}
    for size, ranked in study.ranked.items():
        for each in ranked:
            rest = ", ".join(f"{name.rpartition('.')[2]}={shown(v)}" for name, v in each.cell.settings if name != RATE)
            if math.isfinite(each.cell.mean):
                groups.setdefault(", ".join(filter(None, (size, rest))) or "loss", []).append(each)
    series = {name: sorted((dict(e.cell.settings)[RATE], e.cell.mean, e.cell.error) for e in own)
              for name, own in groups.items()}
    return _plot("Held-out loss over the learning rate", "bits a byte; bars: standard errors over seeds",
                 "learning rate, logarithmic", series)


def _law_plot(study: Study) -> Plot:
    """Draw the best learning rates over parameters, both logarithmic, with their intervals, and the law's line."""
    law = study.law
    assert law is not None
    sizes = [study.curves[size].parameters for size in study.optima]
    measured = [(size, math.log10(each.value), math.log10(each.low), math.log10(each.high))
                for size, each in zip(sizes, law.optima, strict=True)]
    line = [(size, math.log10(law.at(size).value), math.nan, math.nan) for size in sizes]
    plot = _plot("The best learning rate over parameters", "both logarithmic; bars: 95 %",
                 "parameters without embeddings", {"optimum": measured, "power law": line})
    dots, fitted = plot.lines  # optima are points, and the law is a line
    return replace(plot, lines=[(*dots[:2], "", dots[3]), (*fitted[:3], [])],
                   y_ticks=[(y, f"{10 ** float(text):.2g}") for y, text in plot.y_ticks])


def _plot(title: str, note: str, x_name: str, series: Mapping[str, Sequence[Any]]) -> Plot:
    """Draw lines of (x, y, standard error) or (x, y, low, high); x is logarithmic."""
    ends = {name: [_ends(point) for point in points] for name, points in series.items()}
    xs = sorted({x for points in ends.values() for x, *_ in points})
    if not xs:
        return Plot(title, note, x_name, [], [], [])
    ys = [y for points in ends.values() for _, *three in points for y in three]
    y_ticks = ticks(min(ys), max(ys), 5)
    x_of, y_of = _log_axis(xs), on_axis(y_ticks[0], y_ticks[-1], BOTTOM, TOP)
    lines = []
    for number, (name, points) in enumerate(ends.items()):
        dots = [Dot(x_of(x), y_of(y), y_of(low), y_of(high), f"{name}: {y:.4g} at {x:.3g}")
                for x, y, low, high in points]
        lines.append((name, number % COLOURS, path_of([(dot.x, dot.y) for dot in dots]), dots))
    return Plot(title, note, x_name, lines, _x_ticks(xs, x_of), [(y_of(y), short(y)) for y in y_ticks])


def _ends(point: Sequence[float]) -> tuple[float, float, float, float]:
    x, y = point[:2]
    low, high = (y - point[2], y + point[2]) if len(point) == 3 else point[2:]
    return (x, y, y, y) if math.isnan(low) else (x, y, low, high)


def _log_axis(xs: Sequence[float]) -> Scale:
    scale = on_axis(math.log(xs[0]), math.log(xs[-1]), LEFT + 12, RIGHT - 12)
    return lambda x: scale(math.log(x))


def _x_ticks(xs: Sequence[float], x_of: Scale) -> list[tuple[float, str]]:
    """Label the tried values, as far as their texts have room."""
    found: list[tuple[float, str]] = []
    for x in xs:
        if not found or x_of(x) - found[-1][0] > 44:
            found.append((x_of(x), f"{x:.3g}" if x < 1000 else short(x)))
    return found
