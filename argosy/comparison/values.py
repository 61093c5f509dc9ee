"""What a metric is the mean of: the values of its rows, and what must be equal for two of them to be paired."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
_OF_ROW = {"acc": "correct", "acc_norm": "correct_norm"}
_TOP = re.compile(r"^top(\d+)$")


@dataclass(frozen=True)
class Value:
    """One question's or document's share of a metric, which is the sum of `value` over the sum of `weight`.

    Attributes:
        unit: what is independent of others: the cluster, else the item, else the row itself.
        item: what it is a question about.
        check: what must be equal for two checkpoints to be asked the same: the suite with its settings and the bytes,
            or tokens, of a document; the right option and the number of options of a question. None: not known.
    """

    unit: str
    value: float
    weight: float = 1.0
    item: str = ""
    check: Hashable = None


def total(values: Mapping[str, Value]) -> float:
    """The metric that the values make."""
    return math.fsum(v.value for v in values.values()) / math.fsum(v.weight for v in values.values())


def plain(rows: Iterable[Record], measure: str) -> dict[str, Value]:
    """By row's id, what a measure of a benchmark or probe is the mean of."""
    if measure == "acc_all":
        return _all_right(rows)
    found = {}
    for row in rows:
        value = _of_row(row, measure)
        if value is None:
            continue
        item = str(row.get("item") or row["id"])
        found[str(row["id"])] = Value(str(row.get("cluster") or item), value, 1.0, item, _question(row, item))
    return found


def _all_right(rows: Iterable[Record]) -> dict[str, Value]:
    """By item, whether every question of it was answered right."""
    found: dict[str, Value] = {}
    for value in plain(rows, "acc").values():
        before = found.get(value.item)
        right = value.value if before is None else min(before.value, value.value)
        found[value.item] = Value(value.unit, right, 1.0, value.item, value.check)
    return found


def _of_row(row: Record, measure: str) -> float | None:
    top = _TOP.match(measure)
    if top and (rank := number(row.get("rank"))) is not None:
        return float(rank <= int(top[1]))
    return number(row.get(_OF_ROW.get(measure, measure), row.get(measure)))


def number(value: object) -> float | None:
    """A finite number of a row; None for anything else."""
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def item_means(values: Mapping[str, Value]) -> dict[str, Value]:
    """By item, the mean over its questions."""
    found: dict[str, list[Value]] = {}
    for value in values.values():
        found.setdefault(value.item, []).append(value)
    return {item: Value(each[0].unit, sum(v.value for v in each) / len(each), 1.0, item, each[0].check)
            for item, each in found.items()}


def _question(row: Record, item: str) -> Hashable:
    """What tells a question from another one of the same id: its right option, and of how many. Of an item that is
    asked in several orders the number alone, since the orders are drawn."""
    if "gold" not in row or "scores" not in row:
        return None
    right = tuple(row.get("golds") or ()) or row["gold"]
    return (right if str(row["id"]) == item else None, len(row["scores"] or ()))


def together(checks: Iterable[Hashable]) -> Hashable:
    """What is to be checked of several forms; None where it is not known of one."""
    found = tuple(checks)
    return None if None in found else found
