"""The contamination score of a checkpoint's benchmarks, from the rows of its evaluations."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from argosy.comparison.rows import Rows
from argosy.comparison.values import Record
from argosy.contamination.verdict import Seen
from argosy.statistics.contamination import Contamination, Equals, Evidence, Gap, score
from argosy.statistics.contamination_null import Calibration, default_calibration
from argosy.statistics.contamination_parts import LEAST_ITEMS

PLAIN, MEMORISATION = "plain", "memorisation"
MIXED = "its options have no published order"
GAPS = {"permuted": "order_gap"}  # forms that are as hard as the published one for who knows the answer


def contamination_of(
    rows: Rows, task: str, calibration: Calibration | None = None, reference: Rows | None = None
) -> Contamination | str:
    """The score of one benchmark, or why there is none.

    Args:
        reference: of a clean checkpoint that was asked the same.
    """
    evidence, places, clusters = evidence_of(rows, task)
    if not evidence and _mixed(rows, task):
        return f"{task}: {MIXED}"
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


def _mixed(rows: Rows, task: str) -> bool:
    """Whether all of its items were given an order of options of ours (TruthfulQA's have the right one first)."""
    asked = rows.groups.get((task, PLAIN), ())
    return bool(asked) and all(row.get("mixed") for row in asked)


def tasks_of(rows: Rows) -> list[str]:
    """Benchmarks that there is evidence of."""
    wanted = {MEMORISATION, PLAIN}
    return sorted({task for task, variant in rows.groups if variant in wanted and evidence_of(rows, task)[0]})


def seen_of(rows: Rows) -> dict[str, Seen]:
    """By benchmark, whether it has been seen, by the shipped calibration: what the gate's rule decides on unless it
    names another one. Of those without evidence, why that cannot be told."""
    asked = {task for (task, _), group in rows.groups.items() if "correct" in group[0]} | set(tasks_of(rows))
    found = {task: contamination_of(rows, task) for task in sorted(asked)}
    return {task: Seen(task, None, s.removeprefix(f"{task} ").removeprefix(f"{task}: ")) if isinstance(s, str)
            else Seen(task, s) for task, s in found.items()}


def contamination_record(found: Mapping[str, Seen]) -> dict[str, dict[str, Any]]:
    """By benchmark, verdict and score as JSON has them; numbers that are not known are left out."""
    return {task: {"verdict": seen.verdict, "why": seen.why, **_numbers(seen.found)} for task, seen in found.items()}


def _numbers(s: Contamination | None) -> dict[str, Any]:
    if s is None:
        return {}
    numbers = {"score": s.score, "low": s.low, "high": s.high, "z": s.z, "p_value": s.p_value,
               "probability": s.probability}  # fmt: skip
    return {"measure": s.measure, **{name: value for name, value in numbers.items() if math.isfinite(value)},
            "items": s.items, "left_out": s.left_out}


def evidence_of(rows: Rows, task: str) -> tuple[list[Evidence], dict[str, Hashable], dict[str, Hashable]]:
    """Measures, places of right options and clusters, of the evaluation that has the most measures (of enough items),
    then the most items; of equals the newest. Forms that two of them asked are never mixed."""
    found = [each for part in reversed(rows.parts or [rows]) if (each := _evidence(part, task))[0]]
    return max(found, key=lambda each: _strength(each[0]), default=([], {}, {}))


def _strength(evidence: Sequence[Evidence]) -> tuple[int, int]:
    sizes = [len(each.values()) for each in evidence]
    return sum(size >= LEAST_ITEMS for size in sizes), sum(sizes)


def _evidence(rows: Rows, task: str) -> tuple[list[Evidence], dict[str, Hashable], dict[str, Hashable]]:
    """Items whose published order everybody would choose (`natural`: sorted numbers) are left out: that it stands out
    says nothing. So are items whose options have no published order (`mixed`)."""
    natural = {str(r["id"]) for r in rows.groups.get((task, MEMORISATION), ()) if r.get("natural")}
    orders, plain = ([r for r in rows.groups.get((task, form), ()) if str(r.get("item") or r["id"]) not in natural]
                     for form in (MEMORISATION, PLAIN))
    orders, plain = ([r for r in asked if not r.get("mixed")] for asked in (orders, plain))
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
                  if "gold" in r and r.get("scores")}
    return found, places, clusters


def _right(rows: Iterable[Record]) -> Mapping[str, float]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        if isinstance(row.get("correct"), bool):
            found.setdefault(str(row.get("item") or row["id"]), []).append(row["correct"])
    return {item: sum(each) / len(each) for item, each in found.items()}
