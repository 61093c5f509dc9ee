"""The nightly verdict: new checkpoints against a reference, which are worse beyond noise, and its page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.core.statistics.decisions import DECISION
from argosy.core.store.step_files import read_done
from argosy.evidence.compare.changes import form_changes, headline_changes, not_shared, task_of, text_changes
from argosy.evidence.compare.checkpoints import BENCHMARK, HELDOUT, Checkpoint
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.trend import Drop
from argosy.evidence.compare.words import tested_text
from argosy.evidence.gate.check import Verdict, as_json, lines, sentences, summary
from argosy.evidence.gate.rules import CANNOT_TELL, FAILS
from argosy.evidence.report.record import change_record, rounded
from argosy.evidence.report.tables import Table, accuracy_table, prefix_tables, render
from argosy.evidence.results.contamination import LIKELY, Seen, contamination_record, doubt, of_numbers


@dataclass(frozen=True)
class Judged:
    """A new checkpoint and the reference that it is held against."""

    new: Checkpoint
    reference: Checkpoint | None
    headlines: list[Contrast] = field(default_factory=list)
    """contrasts of benchmarks, from the reference to it, corrected over all of the night as a decision is"""
    forms: list[Contrast] = field(default_factory=list)
    """contrasts of single forms of the questions, corrected over the forms of one benchmark"""
    texts: list[Contrast] = field(default_factory=list)
    """contrasts of held-out text, corrected over all of the night"""
    gate: Verdict | None = None
    """the verdict of the model line's gate; where there is one, it decides what is worse"""
    drops: list[Drop] = field(default_factory=list)
    """probes and channels that left the trend of its run for the worse"""
    untested: list[str] = field(default_factory=list)
    """sentences on probes and channels without a trend"""
    data: str = ""
    """shares of the channels that its stage reads, in words"""
    missing: list[str] = field(default_factory=list)
    """benchmarks and channels that a suite found of the reference and not of it, with which both were evaluated"""

    @property
    def regressions(self) -> list[str]:
        """The metrics that it is worse at, in words: rules of the gate that it fails. Without a gate, held-out text
        counts between checkpoints of one stage: tuning costs some."""
        trend = [drop.text(self.data) for drop in self.drops]
        if self.gate is not None:
            return sentences(self.gate, FAILS) + trend
        found = trend + [f"{task_of(c)[0]}: {tested_text(c)}{self._doubt(task_of(c)[0])}"
                 for c in self.headlines if c.verdict == "worse"]
        if self.reference is None or self.reference.stage != self.new.stage:
            return found
        return found + [f"held-out {t.name.removeprefix(HELDOUT)}: {tested_text(t)}"
                        for t in self.texts if t.verdict == "worse"]

    def _doubt(self, task: str) -> str:
        both = [each for each in (self.reference, self.new) if each is not None]
        return doubt(f"{BENCHMARK}{task}", {each.label: each.seen for each in both})

    @property
    def verdict(self) -> str:
        """`worse`, `better`, `no difference` that these items can show, `not compared`, or `cannot tell` (the gate
        cannot, or what was asked is `missing`)."""
        if self.regressions:
            return "worse"
        if (self.gate is not None and not self.gate.holds) or (self.gate is None and self.missing):
            return CANNOT_TELL
        if not self.headlines and not self.texts:
            return "not compared"
        return "better" if any(c.verdict == "better" for c in self.headlines) else "no difference"


def judge(pairs: Sequence[tuple[Checkpoint, Checkpoint | None]]) -> list[Judged]:
    """Compare each new checkpoint with its reference, on the items that both answered."""
    both = [(new, reference) for new, reference in pairs if reference is not None]
    tasks = [(task, reference, new) for new, reference in both for task in sorted({*new.tasks} & {*reference.tasks})]
    headlines = headline_changes(tasks, DECISION)
    forms = [c for task, reference, new in tasks for c in form_changes(reference, new, task, DECISION)]
    texts = text_changes([(reference, new) for new, reference in both], DECISION)

    def own(some: Sequence[Contrast], new: Checkpoint) -> list[Contrast]:
        return [change for change in some if change.second == new.key]

    return [Judged(new, reference, own(headlines, new), own(forms, new), own(texts, new),
                   missing=_missing(new, reference) if reference else []) for new, reference in pairs]


def _missing(new: Checkpoint, reference: Checkpoint) -> list[str]:
    """Benchmarks and channels that failed, or have no score that is a number; the reference's own are not missing."""
    ours, theirs = _by_suite(new), _by_suite(reference)
    asked = {name for suite in theirs.keys() & ours.keys() for name in theirs[suite]}
    return sorted(asked - {name for names in ours.values() for name in names})


def _by_suite(checkpoint: Checkpoint) -> dict[str, set[str]]:
    """Return by suite the `bench/<task>` and `heldout/bpb/<channel>` that evaluations measured."""
    found: dict[str, set[str]] = {}
    for directory in checkpoint.evaluations:
        outputs = (read_done(directory) or {}).get("outputs", {})
        names = found.setdefault(str(outputs.get("suite", "")), set())
        for name in outputs.get("metrics", {}):
            if name.startswith(HELDOUT):
                names.add(name)
            elif name.startswith(BENCHMARK):
                names.add("/".join(name.split("/")[:2]))
    return found


def render_night(judged: Sequence[Judged], line: str) -> str:
    """The HTML; like the comparison's, it needs nothing from elsewhere."""
    # As the gate found it, where its rule has a calibration or a reference of its own; likely ones first.
    seen = [(task, j.new.label, seen) for j in judged for task, seen in {**j.new.seen, **_gate_seen(j)}.items()]
    scores = sorted(seen, key=lambda row: row[2].verdict != LIKELY)
    notes = not_shared([(j.reference, j.new) for j in judged if j.reference is not None])
    return render("nightly.html.j2", judged=judged, line=line, notes=notes,
                  tables=_tables(judged), scores=scores, gate_lines=lines, gate_said=summary)


def record_night(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """The record of each new checkpoint; rounded, since last digits differ between machines."""
    found = [{"checkpoint": j.new.key, "label": j.new.label, "stage": j.new.stage,
              "reference": j.reference.key if j.reference else "", "verdict": j.verdict,
              "regressions": j.regressions,
              "headlines": {task_of(c)[0]: _numbers(c) | {"items": c.tested.items} for c in j.headlines},
              "heldout": {t.name.removeprefix(HELDOUT): _numbers(t) for t in j.texts},
              "contamination": contamination_record({**j.new.seen, **_gate_seen(j)}),
              **({"drops": [vars(drop) | {"kind": drop.kind.better} for drop in j.drops]} if j.drops else {}),
              **({"untested": j.untested} if j.untested else {}),
              **({"missing": j.missing} if j.missing else {}),
              **({"gate": as_json(j.gate)} if j.gate is not None else {})} for j in judged]
    plain: list[dict[str, Any]] = rounded(found)
    return plain


def _numbers(c: Contrast) -> dict[str, Any]:
    """A change without its names."""
    wanted = ("before", "after", "low", "high", "p_value", "p_adjusted", "verdict")
    return {name: value for name, value in change_record(c).items() if name in wanted}


def _gate_seen(judged: Judged) -> dict[str, Seen]:
    rules = [each for each in judged.gate.judgements if each.rule == "contamination"] if judged.gate else []
    scores = {f.about: of_numbers(f.numbers) for each in rules for f in each.findings}
    return {task: Seen(task, score) for task, score in scores.items() if score is not None}


def _tables(judged: Sequence[Judged]) -> list[Table]:
    checkpoints = list({c.key: c for j in judged for c in (j.reference, j.new) if c is not None}.values())
    marks = {j.new.key: "worse" for j in judged if j.regressions}
    tasks = sorted({task for c in checkpoints for task in c.tasks})
    found = [accuracy_table(checkpoints, task, marks) for task in tasks]
    return [table for table in found if table] + prefix_tables(checkpoints, marks)
