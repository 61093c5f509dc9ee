"""The comparison as comparison.json: sorted, rounded, and free of times and paths."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from argosy.contamination.evidence import contamination_record
from argosy.report.checkpoints import Checkpoint
from argosy.report.comparison import Comparison, TaskComparison
from argosy.report.contamination import Suspicion
from argosy.report.intervals import interval
from argosy.report.paired import Change
from argosy.report.verdict import sentences

DIGITS = 6


def record(found: Comparison) -> dict[str, Any]:
    """`checkpoints` by label, `tasks`, `heldout`, `verdict` and `notes`; see docs/report.md."""
    labels = {c.key: c.label for c in found.checkpoints.every}
    texts = [{**asdict(t), "verdict": t.verdict} for t in found.texts]
    whole = {
        "checkpoints": {c.label: _checkpoint(c, labels) for c in found.checkpoints.every},
        "tasks": {task.task: _task(task) for task in found.tasks},
        "heldout": texts,
        "verdict": [asdict(sentence) for sentence in sentences(found)],
        "notes": found.checkpoints.notes,
    }
    named: dict[str, Any] = _plain(whole, labels)
    return named


def _checkpoint(c: Checkpoint, labels: dict[str, str]) -> dict[str, Any]:
    metrics = {}
    for name, value in sorted(c.metrics.items()):
        bounds = interval(c, name)
        metrics[name] = {"value": value, "n": c.counts.get(name)} | (
            {"low": bounds[0], "high": bounds[1]} if bounds else {})
    return {"stage": c.stage, "name": c.name, "step": c.step, "tokens": c.tokens, "final": c.final, "digest": c.digest,
            "parent": labels.get(c.parent or ""), "metrics": metrics, "left_out": c.left_out}


def _task(task: TaskComparison) -> dict[str, Any]:
    return {"forms": task.forms, "headline": task.headline, "best": task.best,
            "standings": [asdict(s) for s in task.standings],
            "others": [_change(c) for c in task.others], "stages": [_change(c) for c in task.stages],
            "suspicions": [_suspicion(s) for s in task.suspicions], "pairs": [asdict(lead) for lead in task.pairs]}


def _change(change: Change) -> dict[str, Any]:
    return {**asdict(change), "verdict": change.verdict}


def _suspicion(suspicion: Suspicion) -> dict[str, Any]:
    traces, leads = ([asdict(each) for each in some] for some in (suspicion.traces, suspicion.leads))
    return {"checkpoint": suspicion.checkpoint, "task": suspicion.task,
            **contamination_record({suspicion.task: suspicion.seen})[suspicion.task], "traces": traces,
            "reference": suspicion.reference, "leads": leads}


def rounded(value: Any) -> Any:
    """`value` as JSON has it, numbers rounded: their last digits differ between machines."""
    return _plain(value, {})


def _plain(value: Any, labels: dict[str, str]) -> Any:
    """With labels for keys of checkpoints, and numbers rounded: their last digits differ between machines."""
    if isinstance(value, dict):
        return {key: _plain(item, labels) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, labels) for item in value]
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None  # an interval that nothing bounds
    return labels.get(value, value) if isinstance(value, str) else value
