"""A checkpoint against a gate: every rule with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from argosy.gate.config import Gate
from argosy.gate.rule import CANNOT_TELL, FAILS, HOLDS, Finding
from argosy.gate.subject import Subject
from argosy.statistics import holm


@dataclass(frozen=True)
class Judgement:
    """A rule, its parameters, and what it found."""

    rule: str
    parameters: Mapping[str, object]
    findings: tuple[Finding, ...]

    @property
    def status(self) -> str:
        """`fails` where one finding does, else `cannot tell` where one cannot, else `holds`."""
        return _worst([finding.status for finding in self.findings])


@dataclass(frozen=True)
class Verdict:
    """What a gate says of `new`; `reference` is "" where there is none."""

    new: Subject
    reference: Subject | None
    gate: Gate
    judgements: tuple[Judgement, ...]

    @property
    def status(self) -> str:
        """Of all rules together."""
        return _worst([each.status for each in self.judgements])

    @property
    def holds(self) -> bool:
        """Whether every rule does."""
        return self.status == HOLDS

    def having(self, status: str) -> list[tuple[str, Finding]]:
        """(rule, finding) of this status."""
        return [(each.rule, f) for each in self.judgements for f in each.findings if f.status == status]


def check(gate: Gate, new: Subject, reference: Subject | None) -> Verdict:
    """Hold `new` against the rules; p-values of all rules together are Holm-corrected."""
    rules = gate.parsed
    found = [rule.look(new, reference, gate.alpha) or [Finding(rule.name, CANNOT_TELL, "it looked at nothing")]
             for rule in rules]  # fmt: skip
    tests = {(n, i): f.p_value for n, findings in enumerate(found) for i, f in enumerate(findings)
             if f.p_value is not None}  # fmt: skip
    adjusted = holm(tests)
    judgements = [
        Judgement(rule.name, rule.model_dump(mode="json"),
                  tuple(_decided(f, adjusted.get((n, i)), gate.alpha, len(tests)) for i, f in enumerate(findings)))
        for n, (rule, findings) in enumerate(zip(rules, found, strict=True))
    ]  # fmt: skip
    return Verdict(new, reference, gate, tuple(judgements))


def _decided(finding: Finding, p_adjusted: float | None, alpha: float, tests: int) -> Finding:
    if p_adjusted is None:
        return finding
    evidence = f"{finding.evidence}, p {p_adjusted:.2g}"
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
