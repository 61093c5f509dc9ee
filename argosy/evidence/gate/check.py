"""The check of a checkpoint against a gate: every rule with its evidence, for people and for programs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from argosy.core.statistics.decisions import DECISION, NAMES, correct
from argosy.evidence.compare.words import p_text
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.rules import CANNOT_TELL, FAILS, HOLDS, Finding
from argosy.evidence.gate.subject import Subject


@dataclass(frozen=True)
class Judgement:
    """A rule, its parameters and its findings."""

    rule: str
    parameters: Mapping[str, object]
    findings: tuple[Finding, ...]

    @property
    def status(self) -> str:
        """`fails` where one finding does, else `cannot tell` where one cannot, else `holds`."""
        return _worst([finding.status for finding in self.findings])


@dataclass(frozen=True)
class Verdict:
    """The verdict of a gate on `new`; `reference` is None where there is none."""

    new: Subject
    reference: Subject | None
    gate: Gate
    judgements: tuple[Judgement, ...]

    @property
    def status(self) -> str:
        return _worst([each.status for each in self.judgements])

    @property
    def holds(self) -> bool:
        """Whether every rule does."""
        return self.status == HOLDS

    def having(self, status: str) -> list[tuple[str, Finding]]:
        return [(each.rule, f) for each in self.judgements for f in each.findings if f.status == status]


def check(gate: Gate, new: Subject, reference: Subject | None) -> Verdict:
    """Hold `new` against the rules; p-values of all rules together are corrected as one family."""
    rules = gate.parsed
    found = [rule.look(new, reference, gate.alpha) or [Finding(rule.name, CANNOT_TELL, "it looked at nothing")]
             for rule in rules]  # fmt: skip
    tests = {(n, i): f.p_value for n, findings in enumerate(found) for i, f in enumerate(findings)
             if f.p_value is not None}  # fmt: skip
    adjusted = correct(tests, DECISION)
    judgements = [
        Judgement(rule.name, rule.model_dump(mode="json"),
                  tuple(_decided(f, adjusted.get((n, i)), gate.alpha, len(tests)) for i, f in enumerate(findings)))
        for n, (rule, findings) in enumerate(zip(rules, found, strict=True))]  # fmt: skip
    return Verdict(new, reference, gate, tuple(judgements))


def _decided(finding: Finding, p_adjusted: float | None, alpha: float, tests: int) -> Finding:
    if p_adjusted is None:
        return finding
    evidence = f"{finding.evidence}, p {p_text(p_adjusted)}"
    if p_adjusted < alpha:
        status = finding.significant
    elif finding.least * tests >= alpha:
        status = CANNOT_TELL
        evidence += (f"; of so few independent items p cannot be below {finding.least:.2g}, and with {tests} tests in "
                     f"this gate less than {alpha / tests:.2g} is needed: more items would tell")
    else:
        status = finding.status
    return replace(finding, status=status, p_adjusted=p_adjusted, evidence=evidence)


def _worst(statuses: list[str]) -> str:
    return next((status for status in (FAILS, CANNOT_TELL) if status in statuses), HOLDS)


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
    tests = sum(f.p_adjusted is not None for each in verdict.judgements for f in each.findings)
    said = f" (p is corrected over its {tests} tests: {NAMES[DECISION]})" if tests else ""
    return [*found, f"the gate {summary(verdict)}{said}"]


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
    return {
        "checkpoint": verdict.new.key, "label": verdict.new.label, "status": verdict.status,
        "reference": verdict.reference.key if verdict.reference else "",
        "reference_label": verdict.reference.label if verdict.reference else "",
        "alpha": verdict.gate.alpha, "correction": DECISION,
        "evaluations": list(map(str, verdict.new.checkpoint.evaluations)),
        "reference_evaluations": list(map(str, verdict.reference.checkpoint.evaluations)) if verdict.reference else [],
        "rules": [_judgement(each) for each in verdict.judgements]}  # fmt: skip


def _judgement(judgement: Judgement) -> dict[str, Any]:
    findings = [
        {"about": f.about, "status": f.status, "evidence": f.evidence,
         "numbers": {k: v for k, v in f.numbers.items() if math.isfinite(v)},
         **({"p_adjusted": f.p_adjusted} if f.p_adjusted is not None else {})}
        for f in judgement.findings]  # fmt: skip
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
