"""The nightly report: one HTML file of what is new, what it was held against, and what got worse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.contamination.evidence import contamination_record
from argosy.contamination.logged import of_numbers
from argosy.contamination.verdict import LIKELY, Seen
from argosy.gate.render import as_json, lines, summary
from argosy.report.forgetting import not_compared
from argosy.report.page import STYLE, environment
from argosy.report.paired import other_questions
from argosy.report.record import rounded
from argosy.report.regressions import Judged
from argosy.report.tables import Table, accuracy_table, prefix_tables

RULE = "contamination"  # of the gate


def render_night(judged: Sequence[Judged], line: str, notes: Sequence[str] = ()) -> str:
    """The HTML; like the comparison's, it needs nothing from elsewhere."""
    return environment().get_template("nightly.html.j2").render(
        judged=judged, line=line, notes=[*notes, *_notes(judged)], tables=_tables(judged), scores=_seen_rows(judged),
        gate_lines=lines, gate_said=summary,
        css=STYLE.read_text(encoding="utf-8"))


def record_night(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """What is remembered of each new checkpoint; rounded, since last digits differ between machines."""
    found = [{"checkpoint": j.new.key, "label": j.new.label, "stage": j.new.stage,
              "reference": j.reference.key if j.reference else "", "verdict": j.verdict,
              "regressions": j.regressions,
              "headlines": {c.task: {"before": c.before, "after": c.after, "low": c.interval.low,
                                     "high": c.interval.high, "p_adjusted": c.p_adjusted, "items": c.items,
                                     "verdict": c.verdict} for c in j.headlines},
              "heldout": {t.channel: {"before": t.before, "after": t.after, "p_adjusted": t.p_adjusted,
                                      "verdict": t.verdict} for t in j.texts},
              "contamination": contamination_record({**j.new.seen, **_gate_seen(j)}),
              **({"missing": j.missing} if j.missing else {}),
              **({"gate": as_json(j.gate)} if j.gate is not None else {})} for j in judged]
    plain: list[dict[str, Any]] = rounded(found)
    return plain


def _seen_rows(judged: Sequence[Judged]) -> list[tuple[str, str, Seen]]:
    """(benchmark, new checkpoint, whether it was seen), likely ones first; as the gate found it, where its rule
    `contamination` has a calibration or a reference of its own."""
    found = [(task, j.new.label, seen) for j in judged for task, seen in {**j.new.seen, **_gate_seen(j)}.items()]
    return sorted(found, key=lambda row: row[2].verdict != LIKELY)


def _gate_seen(judged: Judged) -> dict[str, Seen]:
    rules = [each for each in judged.gate.judgements if each.rule == RULE] if judged.gate else []
    scores = {f.about: of_numbers(f.numbers) for each in rules for f in each.findings}
    return {task: Seen(task, score) for task, score in scores.items() if score is not None}


def _notes(judged: Sequence[Judged]) -> list[str]:
    pairs = [(j.reference, j.new) for j in judged if j.reference is not None]
    return [*not_compared(pairs), *(note for first, second in pairs for note in other_questions(first, second))]


def _tables(judged: Sequence[Judged]) -> list[Table]:
    checkpoints = list({c.key: c for j in judged for c in (j.reference, j.new) if c is not None}.values())
    marks = {j.new.key: "worse" for j in judged if j.regressions}
    tasks = sorted({task for c in checkpoints for task in c.tasks})
    found = [accuracy_table(checkpoints, task, marks) for task in tasks]
    return [table for table in found if table] + prefix_tables(checkpoints, marks)
