"""The table of metrics x entries: values with intervals, and differences to the first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from argosy.comparison.compared import Compared
from argosy.comparison.contrast import Contrast
from argosy.comparison.entry import Entry
from argosy.comparison.kinds import Kind, kind_of
from argosy.comparison.text import is_percent, plain
from argosy.report.intervals import interval


@dataclass(frozen=True)
class Cell:
    """A value: text, its interval, the number itself, how good it is among those compared (0 to 1), where
    they differ beyond noise."""

    text: str = "–"
    bounds: str = ""
    value: float | None = None
    heat: float | None = None
    contrast: Contrast | None = None  # to the first entry


@dataclass(frozen=True)
class Row:
    """A metric."""

    name: str
    kind: Kind
    cells: list[Cell]

    @property
    def verdicts(self) -> str:
        """Of all its contrasts, for the filter."""
        return " ".join(sorted({c.contrast.verdict.replace(" ", "-") for c in self.cells if c.contrast}))


def rows(found: Compared) -> list[Row]:
    """A row for each metric that is shown."""
    contrasts = {(c.name, n): c for n, pair in enumerate(found.pairs, 1) for c in pair.contrasts}
    result = []
    for name in found.metrics:
        differ = any(c.verdict in ("better", "worse") for (n, _), c in contrasts.items() if n == name)
        ends = _ends(found, name) if differ else None
        cells = [_cell(e, name, ends, contrasts.get((name, n))) for n, e in enumerate(found.entries)]
        result.append(Row(name, kind_of(name), cells))
    return result


def _ends(found: Compared, name: str) -> tuple[float, float] | None:
    """The worst and the best value of what is compared (argosy.comparison.kinds: goodness)."""
    kind = kind_of(name)
    values = [kind.goodness(v) for e in found.entries
              if (v := e.chosen.metrics.get(name)) is not None and math.isfinite(v)]
    return (min(values), max(values)) if values and max(values) > min(values) else None


def _cell(entry: Entry, name: str, ends: tuple[float, float] | None, contrast: Contrast | None) -> Cell:
    value = entry.chosen.metrics.get(name)
    if value is None:
        return Cell()
    if not math.isfinite(value):
        return Cell("NaN", "", None, None, contrast)
    bounds = interval(entry.chosen, name)
    return Cell(number(name, value), _bounds(name, bounds), value, heat(name, value, ends), contrast)


def heat(name: str, value: float, ends: tuple[float, float] | None) -> float | None:
    """How good a value is between the worst and the best one; None where neither way is better."""
    kind = kind_of(name)
    if ends is None or not kind.better:
        return None
    return round((kind.goodness(value) - ends[0]) / (ends[1] - ends[0]), 2)


def number(name: str, value: float) -> str:
    """A value without its unit, which the row names."""
    return f"{100 * value:.1f}" if is_percent(name, value) else plain(value)


def _bounds(name: str, found: tuple[float, float] | None) -> str:
    if found is None or not all(map(math.isfinite, found)):
        return ""
    if is_percent(name):
        return f"{100 * found[0]:.0f}–{100 * found[1]:.0f}"
    return f"±{plain((found[1] - found[0]) / 2)}"
