"""A verdict for people and for programs."""

from __future__ import annotations

import math
from typing import Any

from argosy.gate.check import Judgement, Verdict
from argosy.gate.rule import CANNOT_TELL, FAILS, HOLDS

_MARKS = {HOLDS: "holds", FAILS: "FAILS", CANNOT_TELL: "CANNOT TELL"}


def lines(verdict: Verdict) -> list[str]:
    """For a terminal: each rule, its findings, and the verdict last."""
    against = f" against {verdict.reference.label}" if verdict.reference else ", nothing to hold it against yet"
    found = [f"{verdict.new.label}{against}"]
    for judgement in verdict.judgements:
        found.append(f"  {_MARKS[judgement.status]:<12} {judgement.rule}{_parameters(judgement)}")
        found += [f"    {_MARKS[f.status].lower():<11} {f.evidence}" for f in judgement.findings]
    notes = [*verdict.new.notes, *(verdict.reference.notes if verdict.reference else ())]
    found += [f"  note: {note}" for note in dict.fromkeys(notes)]
    return [*found, f"the gate {summary(verdict)}"]


def summary(verdict: Verdict) -> str:
    """`holds`, or what does not."""
    if verdict.holds:
        return "holds"
    failed = [judgement.rule for judgement in verdict.judgements if judgement.status == FAILS]
    open_ = [judgement.rule for judgement in verdict.judgements if judgement.status == CANNOT_TELL]
    said = [f"fails: {', '.join(failed)}"] if failed else []
    said += [f"cannot tell: {', '.join(open_)}"] if open_ else []
    return f"does not hold ({'; '.join(said)})"


def sentences(verdict: Verdict, status: str) -> list[str]:
    """Rule and evidence of each finding of this status."""
    return [f"{rule}: {finding.evidence}" for rule, finding in verdict.having(status)]


def as_json(verdict: Verdict) -> dict[str, Any]:
    """All of it."""
    return {
        "checkpoint": verdict.new.key, "label": verdict.new.label, "status": verdict.status,
        "reference": verdict.reference.key if verdict.reference else "",
        "reference_label": verdict.reference.label if verdict.reference else "",
        "alpha": verdict.gate.alpha, "evaluations": list(verdict.new.evaluations),
        "reference_evaluations": list(verdict.reference.evaluations) if verdict.reference else [],
        "rules": [_judgement(each) for each in verdict.judgements],
    }  # fmt: skip


def _judgement(judgement: Judgement) -> dict[str, Any]:
    findings = [
        {"about": f.about, "status": f.status, "evidence": f.evidence,
         "numbers": {k: v for k, v in f.numbers.items() if math.isfinite(v)},
         **({"p_adjusted": f.p_adjusted} if f.p_adjusted is not None else {})}
        for f in judgement.findings
    ]  # fmt: skip
    return {"rule": judgement.rule, "parameters": dict(judgement.parameters), "status": judgement.status,
            "findings": findings}


def _parameters(judgement: Judgement) -> str:
    given = judgement.parameters.get("metrics", judgement.parameters)
    shown = {k: v for k, v in given.items() if v is not None} if isinstance(given, dict) else {}
    return " {" + ", ".join(f"{k}: {_short(v)}" for k, v in shown.items()) + "}" if shown else ""


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)
