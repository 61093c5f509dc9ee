"""A sweep in the terminal, as JSON, and as a page with the losses over learning rates by size."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from argosy.core.statistics.decisions import DECISION, NAMES
from argosy.corpus.text.display import columns, short
from argosy.evidence.report.chart import Chart, Series, draw
from argosy.evidence.report.page import render
from argosy.evidence.sweep.advice import Study
from argosy.evidence.sweep.fit import Law
from argosy.evidence.sweep.points import ALL, RATE, Cell, shown

_RIGHT = (1, 3, 4, 5, 6)  # columns of numbers
_HEADER = ("size", "parameters", "setting", "loss", "standard error", "seeds", "behind", "verdict")
_VERDICTS = {"noise": "noise explains it", "one run": "one run: cannot tell"}


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
        "take": study.take, "sentences": [asdict(each) for each in study.sentences]}
    return dict(_finite(found))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return (float(f"{value:.6g}") if math.isfinite(value) else None) if isinstance(value, float) else value


def page(study: Study, line: str = "") -> str:
    """Return the page, one file that needs no network."""
    charts = [_rate_chart(study)] if study.curves else []
    charts += [_law_chart(study, study.law)] if study.law else []
    of = "the mean over channels" if study.runs.channel == ALL else f"the channel {study.runs.channel}"
    return render("sweep.html.j2", study=study, line=line, of=of, decision_method=NAMES[DECISION], header=_HEADER,
                  plots=[draw(chart) for chart in charts if chart.series], channels=_channels(study),
                  rows=list(map(_row, record(study)["settings"])))


def _channels(study: Study) -> list[tuple[str, list[str]]]:
    """Give the losses of each point by channel: its name, then the values; the header first."""
    names = sorted({name for point in study.runs.points for name in point.losses})
    return [("point", names)] + [(point.name, [f"{point.losses[name]:.4f}" if name in point.losses else "–"
                                               for name in names]) for point in study.runs.points]


def _rate_chart(study: Study) -> Chart:
    """Draw the loss over the learning rate, a line for each size and each of the other settings."""
    groups: dict[str, list[tuple[float, Cell]]] = {}
    for size, ranked in study.ranked.items():
        for cell in (each.cell for each in ranked if math.isfinite(each.cell.mean)):
            rest = ", ".join(f"{name.rpartition('.')[2]}={shown(v)}" for name, v in cell.settings if name != RATE)
            rate = float(dict(cell.settings)[RATE])
            groups.setdefault(", ".join(filter(None, (size, rest))) or "loss", []).append((rate, cell))
    series = []
    for name, own in groups.items():
        own.sort(key=lambda each: each[0])
        series.append(Series(name, [(math.log(rate), cell.mean) for rate, cell in own],
                             [(cell.mean - cell.error, cell.mean + cell.error) for _, cell in own]))
    rates = {rate for own in groups.values() for rate, _ in own}
    return Chart("Held-out loss over the learning rate", "bits a byte; bars: standard errors over seeds",
                 "learning rate, logarithmic", series, x_text={math.log(rate): f"{rate:.3g}" for rate in rates},
                 own_ticks=True)


def _law_chart(study: Study, law: Law) -> Chart:
    """Draw the best learning rates over parameters, both logarithmic, with their intervals, and the law's line."""
    sizes = [study.curves[size].parameters for size in study.optima]
    optima = Series("optimum", [(math.log(size), math.log10(each.value)) for size, each in zip(sizes, law.optima,
                                                                                            strict=True)],
                    [(math.log10(each.low), math.log10(each.high)) for each in law.optima], joined=False)
    line = Series("power law", [(math.log(size), math.log10(law.at(size).value)) for size in sizes])
    return Chart("The best learning rate over parameters", "both logarithmic; bars: 95 %",
                 "parameters without embeddings", [optima, line], own_ticks=True,
                 x_text={math.log(size): short(size) for size in sizes}, y_text=lambda y: f"{10**y:.2g}")
