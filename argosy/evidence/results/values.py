"""Values that a metric is the mean of, row by row, and the conditions for pairing those of two checkpoints."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argosy.core.config.explain import grouped
from argosy.core.statistics.intervals import Estimate, mean
from argosy.evidence.results.items import ASKED

Record = Mapping[str, Any]
_OF_ROW = {"acc": "correct", "acc_norm": "correct_norm"}
_TOP = re.compile(r"^top(\d+)$")


@dataclass(frozen=True)
class Value:
    """One question's or document's share of a metric, which is the sum of `value` over the sum of `weight`."""

    unit: str
    """unit that is independent of others: the cluster, else the item, else the row itself"""
    value: float
    weight: float = 1.0
    item: str = ""
    """item that it is a question about"""
    check: Hashable = None
    """facts that are equal where two checkpoints were asked the same: the suite with its settings and the bytes, or
    tokens, of a document; the right option and the number of options of a question. None: not known."""
    asked: tuple[tuple[str, str], ...] = ()
    """digests of what was asked (argosy.evidence.results.items) by row's id; older rows have none"""

    def asked_otherwise(self, other: "Value") -> bool:
        """Whether a question that is in both was asked in other words, with other examples or other options."""
        if self.asked == other.asked or not (self.asked and other.asked):
            return False
        theirs = dict(other.asked)
        return any(theirs.get(key, digest) != digest for key, digest in self.asked)


def total(values: Mapping[Any, Value]) -> float:
    """The metric that the values make."""
    return math.fsum(v.value for v in values.values()) / math.fsum(v.weight for v in values.values())


def estimate(values: Mapping[str, Value]) -> Estimate:
    """The metric that the values make, with its standard error over what is independent."""
    found = mean([v.value for v in values.values()], [v.unit for v in values.values()])
    return Estimate(total(values), found.stderr, found.n)


def plain(rows: Iterable[Record], measure: str) -> dict[str, Value]:
    """Return by row's id the values that a measure of a benchmark or probe is the mean of."""
    if measure == "acc_all":
        return {item: Value(each[0].unit, min(v.value for v in each), 1.0, item, each[0].check, _all_asked(each))
                for item, each in _by_item(plain(rows, "acc")).items()}
    found, top = {}, _TOP.match(measure)
    for row in rows:
        value = number(row.get(_OF_ROW.get(measure, measure), row.get(measure)))
        if top and (rank := number(row.get("rank"))) is not None:
            value = float(rank <= int(top[1]))
        if value is None:
            continue
        item = item_of(row)
        cluster = str(row.get("cluster") or item)
        asked = ((str(row["id"]), str(row[ASKED])),) if row.get(ASKED) else ()
        found[str(row["id"])] = Value(cluster, value, 1.0, item, _question(row, item), asked)
    return found


def item_of(row: Record) -> str:
    return str(row.get("item") or row["id"])


def number(value: object) -> float | None:
    """A finite number of a row; None for anything else."""
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None


def item_means(values: Mapping[str, Value]) -> dict[str, Value]:
    """Average each item over its questions."""
    return {item: Value(each[0].unit, sum(v.value for v in each) / len(each), 1.0, item, each[0].check,
                        _all_asked(each)) for item, each in _by_item(values).items()}


def weighted(values: Mapping[str, Value], tasks: Mapping[str, str]) -> dict[str, Value]:
    """The mean of the tasks' means, whatever their numbers of items. tasks: by row's id, its task."""
    sizes = Counter(tasks[key] for key in values)
    each = {key: len(values) / len(sizes) / sizes[tasks[key]] for key in values}
    return {key: replace(v, value=v.value * each[key], weight=each[key]) for key, v in values.items()}


def _by_item(values: Mapping[str, Value]) -> dict[str, list[Value]]:
    return grouped((value.item, value) for value in values.values())


def _all_asked(values: Sequence[Value]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for value in values for pair in value.asked)


def _question(row: Record, item: str) -> Hashable:
    """Identify a question beyond its id: gold option and number of options. For an item that is asked in several orders
    the number alone, since the orders are drawn."""
    if "gold" not in row or "scores" not in row:
        return None
    right = tuple(row.get("golds") or ()) or row["gold"]
    return (right if str(row["id"]) == item else None, len(row["scores"] or ()))


ASKED_OTHERWISE = ("questions of the same names have another prompt, other examples, another right option or other "
                   "options")


@dataclass(frozen=True)
class Shared:
    """Questions and documents that two checkpoints were both asked."""

    keys: list[str]
    """keys that can be paired, in order"""
    otherwise: int
    """number of those with the same name that were asked otherwise; they are left out"""
    others: bool
    """whether names mean other questions, or documents, for each: then none can be paired"""


def shared(first: Mapping[str, Value], second: Mapping[str, Value]) -> Shared:
    """Select the keys of both that are not known to have been asked differently."""
    both = sorted(first.keys() & second.keys())
    keys = [key for key in both if not first[key].asked_otherwise(second[key])]
    checks = ((first[key].check, second[key].check) for key in keys)
    return Shared(keys, len(both) - len(keys), any(None not in (a, b) and a != b for a, b in checks))
