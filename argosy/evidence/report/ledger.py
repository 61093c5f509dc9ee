"""Tables of a comparison's page: metrics by entry with differences, the scoreboard, every checkpoint of every line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from argosy.corpus.text.display import short, visible
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import Compared, Entry, value_at
from argosy.evidence.compare.metrics import HEADLINE, Kind, scale_of
from argosy.evidence.compare.test import Contrast
from argosy.evidence.report.tables import Cell, cell, number
from argosy.evidence.results.rows import ALL

MIDDLE = 66  # of 132
WIDEST = 0.9  # quantile of interval ends that fits: one wide interval does not squeeze all others


class Scale:
    """A scale for each unit, common to all differences of a page."""

    def __init__(self, contrasts: Sequence[Contrast]) -> None:
        ends: dict[str, list[float]] = {}
        for c in contrasts:
            if math.isfinite(c.difference.low + c.difference.high):
                ends.setdefault(scale_of(c.name, c.kind), []).append(max(abs(c.difference.low), abs(c.difference.high)))
        self._half = {key: sorted(each)[int(WIDEST * (len(each) - 1))] or 1.0 for key, each in ends.items()}

    def mark(self, c: Contrast) -> dict[str, Any] | None:
        """The places of a difference and its interval; cut: whether the interval goes on beyond the left or right end.
        None where there is no interval."""
        half = self._half.get(scale_of(c.name, c.kind))
        if half is None or not math.isfinite(c.difference.low + c.difference.high):
            return None
        turn = -1 if c.kind.sign < 0 else 1
        low, high = sorted((turn * c.difference.low, turn * c.difference.high))
        at, low, high = (turn * c.difference.value / half, low / half, high / half)
        return {"at": _x(at), "low": _x(low), "high": _x(high), "cut": (low < -1, high > 1)}


def _x(share: float) -> float:
    return round(MIDDLE + max(-1.0, min(1.0, share)) * (MIDDLE - 3), 1)


@dataclass(frozen=True)
class Row:
    """A metric."""

    name: str
    kind: Kind
    cells: list[Cell]

    @property
    def verdicts(self) -> str:
        """The verdicts of all its contrasts, for the filter."""
        return " ".join(sorted({c.contrast.verdict.replace(" ", "-") for c in self.cells if c.contrast}))


def rows(found: Compared) -> list[Row]:
    contrasts = {(c.name, n): c for n, pair in enumerate(found.pairs, 1) for c in pair.contrasts}
    result = []
    for name in found.metrics:
        differ = any(c.verdict in ("better", "worse") for (n, _), c in contrasts.items() if n == name)
        kind = found.kinds[name]
        ends = _ends(found, name, kind) if differ else None
        cells = [replace(_shaded(kind, cell(e.chosen, name, kind), ends), contrast=contrasts.get((name, n)))
                 for n, e in enumerate(found.entries)]
        result.append(Row(name, kind, cells))
    return result


def _ends(found: Compared, name: str, kind: Kind) -> tuple[float, float] | None:
    """The worst and the best value of what is compared."""
    values = [kind.goodness(v) for e in found.entries
              if (v := e.chosen.metrics.get(name)) is not None and math.isfinite(v)]
    return (min(values), max(values)) if values and max(values) > min(values) else None


def _shaded(kind: Kind, found: Cell, ends: tuple[float, float] | None) -> Cell:
    """Shade a value by its place between the worst (0) and the best one (1) of those that are compared."""
    if ends is None or not kind.sign or found.value is None:
        return replace(found, shade=0.0)
    return replace(found, shade=round((kind.goodness(found.value) - ends[0]) / (ends[1] - ends[0]), 2))


MOST = 4  # benchmarks; the others are in the table of every metric
WHOLE = f"heldout/bpb/{ALL}"


def scoreboard(rows: Sequence[Row]) -> list[Row]:
    """Headlines (of benchmarks without one, the published form) that most checkpoints have, of the most items first;
    and bits a byte of all channels together."""
    found: dict[str, Row] = {}
    for form in ("plain", HEADLINE):
        found |= {row.kind.family: row for row in rows if row.name.startswith("bench/") and row.kind.short == form}
    return [*sorted(found.values(), key=_weight)[:MOST], *(row for row in rows if row.name == WHOLE)]


def _weight(row: Row) -> tuple[int, int]:
    known = sum(cell.value is not None for cell in row.cells)
    return -known, -max((cell.contrast.tested.n for cell in row.cells if cell.contrast), default=0)


def overview(found: Compared, by: str) -> dict[str, Any]:
    """`columns`: [entry, label, place in training, whether it is the compared one]; `metrics`: name, its short name,
    its unit, which way is better, and for each column [value (its distance from 0, where nearer is better), text,
    whether noise alone tells it from the first]."""
    columns = [(n, e, c) for n, e in enumerate(found.entries) for c in _own(found.entries, n)]
    return {
        "columns": [[n, visible(c.label), short(c.step if by == "step" else c.tokens), int(c is e.chosen)]
                    for n, e, c in columns],
        "metrics": [
            {"n": visible(name), "f": visible(kind.family), "s": visible(kind.short), "b": kind.sign,
             "u": "%" if kind.share else kind.unit,
             "v": [_value(name, kind, found.entries[0].chosen, e, c) for _, e, c in columns]}
            for name in found.metrics for kind in [found.kinds[name]]]}  # fmt: skip


def _own(entries: list[Entry], number: int) -> list[Checkpoint]:
    """Checkpoints of an entry's line that no earlier one has, and the one that is compared."""
    earlier = {c.key for e in entries[:number] for c in e.line}
    entry = entries[number]
    return [c for c in entry.line if c.key not in earlier or c is entry.chosen]


def _value(name: str, kind: Kind, first: Checkpoint, entry: Entry, c: Checkpoint) -> list[Any] | int:
    value = value_at(entry, c, name)
    if value is None or not math.isfinite(value):
        return 0
    shaded = abs(value) if kind.centred else value
    return [float(f"{shaded:.5g}"), number(kind, value), int(_is_noise(name, first, c))]


def _is_noise(name: str, first: Checkpoint, c: Checkpoint) -> bool:
    """Whether the two standard errors, taken as independent, explain the difference to the first entry."""
    errors = [of.stderr.get(name, math.nan) for of in (first, c)]
    before = first.metrics.get(name)
    if before is None or not all(map(math.isfinite, errors)) or c is first:
        return False
    return abs(c.metrics.get(name, before) - before) <= 1.96 * math.hypot(*errors)
