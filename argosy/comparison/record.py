"""A comparison as JSON: all that the page shows, but for its items."""

from __future__ import annotations

import math
from typing import Any

from argosy.comparison.compared import Compared
from argosy.comparison.contrast import Contrast
from argosy.comparison.entry import Entry
from argosy.comparison.sentences import sentences
from argosy.contamination.evidence import contamination_record
from argosy.report.checkpoints import Checkpoint
from argosy.report.intervals import interval


def record(found: Compared) -> dict[str, Any]:
    """`entries`, `pairs`, `verdict`, `metrics`, `alone`, `hidden`; docs/report.md has the format. No number is rounded;
    what is none is null.
    """
    return {
        "entries": [_entry(e, found.metrics) for e in found.entries],
        "pairs": [{"first": p.first.label, "second": p.second.label,
                   "contrasts": [contrast_record(c) for c in p.contrasts]} for p in found.pairs],
        "tests": found.tests, "metrics": found.metrics, "hidden": found.hidden, "alone": found.alone,
        "verdict": [{"kind": kind, "text": text} for kind, text in sentences(found)],
    }  # fmt: skip


def contrast_record(c: Contrast) -> dict[str, Any]:
    """One contrast."""
    d = c.difference
    return {"metric": c.name, "verdict": c.verdict, "before": number(c.before), "after": number(c.after),
            "most": number(c.most), "leans": c.leans,
            "difference": number(d.value), "low": number(d.low), "high": number(d.high), "p_value": c.tested.p_value,
            "p_adjusted": c.p_adjusted, "how": c.how, "n": c.tested.n, "margin": c.kind.margin, "better": c.kind.better}


def number(value: float | None) -> float | None:
    """A number that JSON has, or None."""
    return value if value is not None and math.isfinite(value) else None


def _entry(e: Entry, names: list[str]) -> dict[str, Any]:
    c = e.chosen
    return {"name": e.name, "label": e.label, "checkpoint": c.label, "key": c.key, "stage": c.stage, "export": c.name,
            "step": c.step, "tokens": c.tokens, "source": e.source, "model": e.model, "link": e.link,
            "metrics": {n: _metric(c, n) for n in names if n in c.metrics},
            "contamination": contamination_record(c.seen),
            "line": [{"checkpoint": p.label, "key": p.key, "step": p.step, "tokens": p.tokens,
                      "metrics": {n: number(p.metrics[n]) for n in names if n in p.metrics}} for p in e.line]}


def _metric(c: Checkpoint, name: str) -> dict[str, Any]:
    bounds = interval(c, name)
    found = {"value": number(c.metrics[name]), "stderr": number(c.stderr.get(name)), "n": c.counts.get(name)}
    return found | ({"low": number(bounds[0]), "high": number(bounds[1])} if bounds else {})
