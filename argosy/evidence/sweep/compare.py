"""Tests which settings of a size are better than others beyond noise, and where the grid ends too early."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.core.statistics.decisions import DECISION, correct
from argosy.core.statistics.intervals import t_two_sided
from argosy.evidence.sweep.fit import Curve, Noise, residual_noise, seed_noise
from argosy.evidence.sweep.grid import STAGE
from argosy.evidence.sweep.points import Cell, Setting, shown

RATE = f"{STAGE}.learning_rate"
ALPHA = 0.05


@dataclass(frozen=True)
class Ranked:
    """A cell against the best one of its size."""

    cell: Cell
    difference: float
    """Difference of its mean loss from the best one's."""
    error: float
    """Standard error of the difference; NaN where the noise is not known."""
    p: float
    """Corrected (Holm) over the size; NaN where the noise is not known."""

    @property
    def verdict(self) -> str:
        """`best`, `worse`, `noise` (explains the difference), `diverged`, or `one run` (cannot tell)."""
        if not math.isfinite(self.cell.mean):
            return "diverged"
        if self.difference == 0:
            return "best"
        return "one run" if math.isnan(self.p) else "worse" if self.p < ALPHA else "noise"


def rank(cells: Sequence[Cell]) -> list[Ranked]:
    """Rank the cells of one size, the best first, by t-tests with the noise of all of its seeds together.

    The noise is pooled, so that two seeds of many settings tell as much as many seeds of two."""
    ordered = sorted(cells, key=lambda cell: cell.mean)
    noise, best = noise_of(cells), ordered[0]
    if not math.isfinite(best.mean):
        return [Ranked(cell, math.inf, math.nan, math.nan) for cell in ordered]
    raw = {number: _test(best, cell, noise) for number, cell in enumerate(ordered) if cell is not best}
    known = {number: p for number, (_, p) in raw.items() if not math.isnan(p)}
    adjusted = correct(known, DECISION)
    return [Ranked(best, 0.0, 0.0, 1.0)] + [
        Ranked(cell, cell.mean - best.mean, raw[number][0], adjusted.get(number, math.nan))
        for number, cell in enumerate(ordered) if cell is not best]


def _test(best: Cell, cell: Cell, noise: Noise) -> tuple[float, float]:
    """Return the standard error of the difference, and the p-value of so large a one."""
    if not noise.known or not math.isfinite(cell.mean):
        return math.nan, math.nan
    error = noise.sd * math.sqrt(1 / len(best.points) + 1 / len(cell.points))
    if error == 0:
        return 0.0, 1.0 if cell.mean == best.mean else 0.0
    return error, t_two_sided((cell.mean - best.mean) / error, noise.df)


def noise_of(cells: Sequence[Cell]) -> Noise:
    """Pool the noise over seeds of one size; runs that diverged tell none."""
    return seed_noise([cell.losses for cell in cells if math.isfinite(cell.mean)])


def curve_of(cells: Sequence[Cell], rest: tuple[Setting, ...]) -> Curve:
    """Return the losses over learning rates of one size where the other settings are `rest`; what diverged is left
    out, and is an edge no more than a point that was not tried."""
    chosen = sorted((dict(cell.settings)[RATE], cell.mean, cell) for cell in cells
                    if without_rate(cell) == rest and math.isfinite(cell.mean))
    return Curve(max((cell.points[0].parameters for *_, cell in chosen), default=0), tuple(c[0] for c in chosen),
                 tuple(c[1] for c in chosen), tuple(len(c[2].points) for c in chosen))


def without_rate(cell: Cell) -> tuple[Setting, ...]:
    """Return the cell's settings but the learning rate."""
    return tuple(setting for setting in cell.settings if setting[0] != RATE)


def best_rest(sizes: Mapping[str, Sequence[Cell]]) -> tuple[Setting, ...]:
    """Return the other settings whose best learning rates have the lowest loss on average over sizes."""
    found: dict[str, tuple[tuple[Setting, ...], list[float]]] = {}
    for cells in sizes.values():
        for rest in {repr(without_rate(cell)): without_rate(cell) for cell in cells}.values():
            lowest = min(cell.mean for cell in cells if without_rate(cell) == rest)
            found.setdefault(repr(rest), (rest, []))[1].append(lowest)
    return min(found.values(), key=lambda each: sum(each[1]) / len(each[1]))[0]


def noise_for(cells: Sequence[Cell], curve: Curve) -> Noise:
    """Return the noise of seeds; where there are none, what the parabola leaves over."""
    own = noise_of(cells)
    return own if own.known or curve.problem else residual_noise([curve])


def edges(ranked: Sequence[Ranked]) -> list[str]:
    """Say of each numeric field but the learning rate whose best value is the first or the last that was tried, how to
    widen it; not where noise explains what it has over another value."""
    cells = [each.cell for each in ranked]
    tried: dict[str, set[Any]] = {}
    for cell in cells:
        for name, value in cell.settings:
            if name != RATE:
                tried.setdefault(name, set()).add(value if isinstance(value, int | float) else repr(value))
    best = dict(ranked[0].cell.settings)
    found = []
    for name, values in tried.items():
        if any(each.verdict == "noise" and dict(each.cell.settings)[name] != best[name] for each in ranked):
            continue
        numbers = sorted(value for value in values if not isinstance(value, bool | str))
        if best[name] in (numbers[:1] + numbers[-1:]) and 1 < len(numbers) == len(values) and best[name] != 0:
            found.append(_edge(name, numbers, high=best[name] == numbers[-1]))
    return found


def rate_edge(curve: Curve, cells: Sequence[Cell]) -> str:
    """Say how to widen the learning rates where the best one is the first or the last of `curve`; "" where it is
    inside. Above may lie rates at which training diverged."""
    if len(curve.rates) < 2 or 0 < curve.best < len(curve.rates) - 1:
        return ""
    best, high = curve.rates[curve.best], curve.best > 0
    above = [rate for rate in (dict(cell.settings)[RATE] for cell in cells) if rate > best]
    if high and above:
        return (f"{RATE}: the best value, {best:g}, is the highest at which training did not diverge: try values "
                f"between it and {min(above):g}")
    return _edge(RATE, curve.rates, high=high)


def _edge(name: str, numbers: Sequence[float], *, high: bool) -> str:
    best, more = numbers[-1 if high else 0], _beyond(numbers, high=high)
    return (f"{name}: the best value, {shown(best)}, is at the grid's edge, the {'highest' if high else 'lowest'} that "
            f"was tried: widen the range, such as with {shown(more)}")


def _beyond(numbers: Sequence[float], *, high: bool) -> float:
    """Return the next value of the grid's own steps."""
    near, edge = (numbers[-2], numbers[-1]) if high else (numbers[1], numbers[0])
    if near <= 0 or edge <= 0:
        return edge * 2
    return float(f"{edge * edge / near:.3g}")
