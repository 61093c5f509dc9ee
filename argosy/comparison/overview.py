"""Every checkpoint of every line x every metric, as the numbers that the page's script makes a table of."""

from __future__ import annotations

import math
from typing import Any

from argosy.comparison.compared import Compared
from argosy.comparison.curves import value_at
from argosy.comparison.entry import Entry
from argosy.comparison.kinds import kind_of
from argosy.comparison.table import number
from argosy.report.chart import short
from argosy.report.checkpoints import Checkpoint
from argosy.report.visible import visible

Z_95 = 1.96


def overview(found: Compared, by: str) -> dict[str, Any]:
    """`columns`: [entry, label, place in training, whether it is the compared one]; `metrics`: name, its short name,
    its unit, which way is better, and for each column [value (its distance from 0, where nearer is better), text,
    whether noise alone tells it from the first].
    """
    columns = [(n, e, c) for n, e in enumerate(found.entries) for c in _own(found.entries, n)]
    return {
        "columns": [[n, visible(c.label), short(c.step if by == "step" else c.tokens), int(c is e.chosen)]
                    for n, e, c in columns],
        "metrics": [_metric(name, found.entries[0], [(e, c) for _, e, c in columns]) for name in found.metrics],
    }  # fmt: skip


def _own(entries: list[Entry], number: int) -> list[Checkpoint]:
    """Checkpoints of an entry's line that no earlier one has, and the one that is compared."""
    earlier = {c.key for e in entries[:number] for c in e.line}
    entry = entries[number]
    return [c for c in entry.line if c.key not in earlier or c is entry.chosen]


def _metric(name: str, first: Entry, columns: list[tuple[Entry, Checkpoint]]) -> dict[str, Any]:
    kind = kind_of(name)
    return {"n": visible(name), "f": visible(kind.family), "s": visible(kind.short), "b": kind.better,
            "u": "%" if kind.share else kind.unit, "v": [_value(name, first.chosen, e, c) for e, c in columns]}


def _value(name: str, first: Checkpoint, entry: Entry, c: Checkpoint) -> list[Any] | int:
    value = value_at(entry, c, name)
    if value is None or not math.isfinite(value):
        return 0
    shaded = abs(value) if kind_of(name).centred else value
    return [float(f"{shaded:.5g}"), number(name, value), int(_is_noise(name, first, c))]


def _is_noise(name: str, first: Checkpoint, c: Checkpoint) -> bool:
    """Whether the two standard errors, taken as independent, explain the difference to the first entry."""
    errors = [of.stderr.get(name, math.nan) for of in (first, c)]
    before = first.metrics.get(name)
    if before is None or not all(map(math.isfinite, errors)) or c is first:
        return False
    return abs(c.metrics.get(name, before) - before) <= Z_95 * math.hypot(*errors)
