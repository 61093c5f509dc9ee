"""A comparison as MLflow takes it: metrics, tables, and the page."""

from __future__ import annotations

import math

from argosy.comparison.compared import Compared
from argosy.comparison.record import contrast_record, record
from argosy.comparison.sentences import sentences
from argosy.contamination.logged import metrics_of
from argosy.report.intervals import interval
from argosy.tracking.compared import Logged


def logged(found: Compared, line: str, page: str) -> Logged:
    """What is logged for a comparison: metrics `<label>/<metric>` of every entry (among them
    `contamination/<benchmark>/score`), `difference/<label>/<metric>` to the first one, and `count/<label>/<verdict>`.
    """
    labels = [e.label for e in found.entries]
    metrics = {f"{e.label}/{name}": e.chosen.metrics[name] for e in found.entries for name in found.metrics
               if name in e.chosen.metrics}
    for e in found.entries:
        metrics |= {f"{e.label}/{name}": value for name, value in metrics_of(e.chosen.seen).items()}
    for pair in found.pairs:
        metrics |= {f"difference/{pair.second.label}/{c.name}": c.difference.value for c in pair.contrasts}
        metrics |= {f"count/{pair.second.label}/{verdict}": float(len(pair.section(verdict)))
                    for verdict in ("better", "worse", "same", "cannot tell")}
    params = {f"{chr(65 + n)}": f"{e.label}: {e.chosen.label}, {e.chosen.tokens} tokens" for n, e in
              enumerate(found.entries[:26])}
    tables = {"differences.json": _differences(found), "metrics.json": _metrics(found)}
    return Logged(
        line=line, name=" against ".join([", ".join(labels[1:]), labels[0]]) if labels[1:] else labels[0],
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)}, params=params,
        tables={name: table for name, table in tables.items() if next(iter(table.values()))},
        models=[e.model for e in found.entries if e.model], page=page, record=record(found),
        summary="\n\n".join(text for _, text in sentences(found)),
    )  # fmt: skip


def _differences(found: Compared) -> dict[str, list[object]]:
    rows = [{"second": p.second.label, "first": p.first.label, **contrast_record(c)}
            for p in found.pairs for c in p.contrasts]
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {"metric": []}


def _metrics(found: Compared) -> dict[str, list[object]]:
    rows = [(name, e) for name in found.metrics for e in found.entries if name in e.chosen.metrics]
    bounds = [interval(e.chosen, name) or (None, None) for name, e in rows]
    return {"metric": [name for name, _ in rows], "compared": [e.label for _, e in rows],
            "checkpoint": [e.chosen.label for _, e in rows], "tokens": [e.chosen.tokens for _, e in rows],
            "value": [e.chosen.metrics[name] for name, e in rows], "low": [low for low, _ in bounds],
            "high": [high for _, high in bounds]}
