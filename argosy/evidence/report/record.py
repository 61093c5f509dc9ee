"""A comparison as JSON."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from argosy.core.statistics.decisions import TABLE
from argosy.evidence.compare.changes import Comparison, TaskComparison, task_of
from argosy.evidence.compare.checkpoints import HELDOUT, Checkpoint
from argosy.evidence.compare.entries import Compared, Entry
from argosy.evidence.compare.sentences import sentences, stage_sentences
from argosy.evidence.compare.test import Contrast
from argosy.evidence.results.contamination import contamination_record


def record(found: Compared) -> dict[str, Any]:
    """A comparison of entries as JSON (docs/report.md). No number is rounded; what is none is null."""
    return {
        "entries": [_entry(e, found.metrics) for e in found.entries],
        "pairs": [{"first": p.first.label, "second": p.second.label,
                   "contrasts": [contrast_record(c) for c in p.contrasts]} for p in found.pairs],
        "tests": found.tests, "correction": TABLE, "metrics": found.metrics, "hidden": found.hidden,
        "alone": found.alone,
        "verdict": [{"kind": kind, "text": text} for kind, text in sentences(found)]}  # fmt: skip


def contrast_record(c: Contrast) -> dict[str, Any]:
    d = c.difference
    return {"metric": c.name, "verdict": c.verdict, "before": number(c.before), "after": number(c.after),
            "most": number(c.most), "leans": c.leans,
            "difference": number(d.value), "low": number(d.low), "high": number(d.high), "p_value": c.tested.p_value,
            "p_adjusted": c.p_adjusted, "how": c.how, "n": c.tested.n, "margin": c.kind.matters, "better": c.kind.sign}


def change_record(c: Contrast) -> dict[str, Any]:
    """A change between two stages, with what it is of: a form of a benchmark or a channel of held-out text."""
    d, t = c.difference, c.tested
    found = {**contrast_record(c), "first": c.first, "second": c.second,
             "interval": {"value": d.value, "low": d.low, "high": d.high}}
    if c.name.startswith(HELDOUT):
        return found | {"channel": c.name.removeprefix(HELDOUT), "documents": t.n}
    task, form = task_of(c)
    return found | {"task": task, "variant": form, "items": t.items, "gained": t.gained, "lost": t.lost}


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
    bounds = c.interval(name)
    found = {"value": number(c.metrics[name]), "stderr": number(c.stderr.get(name)), "n": c.counts.get(name)}
    return found | ({"low": number(bounds[0]), "high": number(bounds[1])} if bounds else {})


DIGITS = 6


def stages_record(found: Comparison) -> dict[str, Any]:
    """A comparison of stages as JSON (docs/report.md): `checkpoints` by label, tasks, heldout, verdict and notes."""
    labels = {c.key: c.label for c in found.checkpoints.every}
    return dict(rounded({
        "checkpoints": {c.label: _checkpoint_record(c, labels) for c in found.checkpoints.every},
        "tasks": {task.task: _task(task) for task in found.tasks}, "heldout": [change_record(t) for t in found.texts],
        "verdict": [asdict(sentence) for sentence in stage_sentences(found)], "notes": found.checkpoints.notes
    }, labels))


def _checkpoint_record(c: Checkpoint, labels: dict[str, str]) -> dict[str, Any]:
    metrics = {}
    for name, value in sorted(c.metrics.items()):
        bounds = c.interval(name)
        metrics[name] = {"value": value, "n": c.counts.get(name)} | (
            {"low": bounds[0], "high": bounds[1]} if bounds else {})
    return {"stage": c.stage, "name": c.name, "step": c.step, "tokens": c.tokens, "final": c.final, "digest": c.digest,
            "parent": labels.get(c.parent or ""), "metrics": metrics, "left_out": c.left_out}


def _task(task: TaskComparison) -> dict[str, Any]:
    return {"forms": task.forms, "headline": task.headline, "best": task.best, "highest": task.highest,
            "no_best": task.no_best, "standings": [asdict(s) for s in task.standings],
            "others": [change_record(c) for c in task.others],
            "stages": [change_record(c) for c in task.stages],
            "suspicions": [{"checkpoint": key, "task": task.task, **contamination_record({task.task: seen})[task.task]}
                           for key, seen in task.suspicions.items()]}


def rounded(value: Any, labels: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Round numbers, whose last digits differ between machines; name checkpoints by their `labels`."""
    if isinstance(value, dict):
        return {key: rounded(item, labels) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, labels) for item in value]
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None  # an interval that nothing bounds
    return labels.get(value, value) if isinstance(value, str) else value
