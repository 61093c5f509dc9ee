"""The contamination score of a checkpoint's benchmarks, from the rows of its evaluations."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from argosy.comparison.rows import Record, Rows
from argosy.statistics.contamination import Contamination, Equals, Evidence, Gap, score
from argosy.statistics.contamination_null import Calibration, default_calibration

PLAIN = "plain"
GAPS = {"permuted": "order_gap"}  # forms that are as hard as the published one for who knows the answer


def contamination_of(
    rows: Rows, task: str, calibration: Calibration | None = None, reference: Rows | None = None
) -> Contamination | str:
    """The score of one benchmark, or why there is none.

    Args:
        reference: of a clean checkpoint that was asked the same.
    """
    evidence, places, clusters = evidence_of(rows, task)
    if not evidence:
        return (f"{task} has neither memorisation nor a plain and a permuted form: evaluate it with a suite that has "
                "memorisation: {k: 3}")
    known = evidence_of(reference, task)[0] if reference is not None else []
    if reference is not None and not known:
        return (f"{task} is not measured for the reference: evaluate it with the same suite, or leave out "
                "reference: true")
    try:
        return score(evidence, places, clusters, calibration or default_calibration(), known)
    except ValueError as error:
        return f"{task}: {error}"


def tasks_of(rows: Rows) -> list[str]:
    """Benchmarks that there is evidence of."""
    wanted = {"memorisation", PLAIN}
    return sorted({task for task, variant in rows.groups if variant in wanted and evidence_of(rows, task)[0]})


def contamination_record(rows: Rows) -> dict[str, dict[str, Any]]:
    """By benchmark, the score as JSON has it, by the shipped calibration: what the gate's rule decides on."""
    found = {task: contamination_of(rows, task) for task in tasks_of(rows)}
    return {task: {"measure": s.measure, "score": s.score, "low": s.low, "high": s.high, "z": s.z, "p_value": s.p_value,
                   "probability": s.probability, "items": s.items, "left_out": s.left_out}
            for task, s in found.items() if not isinstance(s, str)}


def evidence_of(rows: Rows, task: str) -> tuple[list[Evidence], dict[str, Hashable], dict[str, Hashable]]:
    """Measures, places of right options and clusters. Items whose published order everybody would choose (`natural`:
    sorted numbers) are left out: that it stands out says nothing."""
    natural = {str(r["id"]) for r in rows.groups.get((task, "memorisation"), ()) if r.get("natural")}
    orders, plain = ([r for r in rows.groups.get((task, form), ()) if str(r.get("item") or r["id"]) not in natural]
                     for form in ("memorisation", PLAIN))
    places: dict[str, Hashable] = {str(r["id"]): tuple(r["place"]) for r in orders if "place" in r}
    clusters: dict[str, Hashable] = {str(r.get("item") or r["id"]): r["cluster"] for r in (*orders, *plain)
                                     if r.get("cluster")}
    found: list[Evidence] = []
    if places:
        for number, name in enumerate(("text_order", "answer_order")):
            found.append(Equals(name, {str(r["id"]): r["scores"][number] for r in orders if len(r["scores"]) > number}))
    published = _right(plain)
    for variant, name in GAPS.items():
        changed = _right(rows.groups.get((task, variant), ()))
        if published and changed:
            found.append(Gap(name, published, changed))
    if not places:
        places = {str(r.get("item") or r["id"]): (r["gold"], len(r["scores"])) for r in plain
                  if "gold" in r and "scores" in r}
    return found, places, clusters


def _right(rows: Iterable[Record]) -> Mapping[str, float]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        if isinstance(row.get("correct"), bool):
            found.setdefault(str(row.get("item") or row["id"]), []).append(row["correct"])
    return {item: sum(each) / len(each) for item, each in found.items()}
