"""The points of a sweep as they ran: settings, held-out losses by channel, size; cells of equal settings; which of a
size are better than others beyond noise, and where the grid ends too early."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from argosy.core.config.explain import grouped, likely
from argosy.core.errors import InputError
from argosy.core.statistics.decisions import DECISION, correct
from argosy.core.statistics.paired import pooled_test
from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN, read_done, read_outputs
from argosy.evidence.sweep.fit import Curve, Noise, residual_noise, seed_noise
from argosy.evidence.sweep.grid import STAGE, is_size
from argosy.model.train.sizing.architecture import open_architecture

ALL = "all"
RATE = f"{STAGE}.learning_rate"
ALPHA = 0.05
Setting = tuple[str, Any]


@dataclass(frozen=True)
class Point:
    """One run. Its loss is infinite where training diverged."""

    name: str
    config: Mapping[str, Any]
    """All fields of its training step."""
    losses: Mapping[str, float]
    """Bits a byte of held-out text, by channel; empty where training diverged."""
    parameters: int = 0
    """Without embedding and output layer; 0 where training diverged."""
    every_parameter: int = 0
    seconds: float = 0.0
    """Duration over all attempts."""

    def value(self, name: str) -> Any:
        """Return the value of a field, such as `pretrain.model.hidden_size`."""
        found: Any = self.config
        for part in name.split(".")[1:]:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def loss(self, channel: str) -> float:
        """Return the loss of a channel, or the mean over channels where it is `all`."""
        if not self.losses:
            return math.inf
        value = fmean(self.losses.values()) if channel == ALL else self.losses[channel]
        return value if math.isfinite(value) else math.inf


@dataclass(frozen=True)
class Cell:
    """The runs that differ in their seed alone."""

    size: str
    """Name of its size within the sweep, such as `hidden_size=64`; "" where there is one size."""
    settings: tuple[Setting, ...]
    """Fields that vary, seeds and those of the size aside."""
    points: tuple[Point, ...]
    channel: str = ALL

    @property
    def losses(self) -> list[float]:
        return [point.loss(self.channel) for point in self.points]

    @property
    def mean(self) -> float:
        """Return the mean loss, infinite where a run diverged."""
        return fmean(self.losses)

    @property
    def error(self) -> float:
        """Return the standard error of the mean over seeds; NaN with one seed, or where a run diverged."""
        finite = len(self.losses) > 1 and math.isfinite(self.mean)
        return stdev(self.losses) / math.sqrt(len(self.losses)) if finite else math.nan

    @property
    def label(self) -> str:
        return ", ".join(f"{name.rpartition('.')[2]}={shown(value)}" for name, value in self.settings) or "as it is"


@dataclass(frozen=True)
class Runs:
    """All points of a sweep, and the fields that vary."""

    points: Sequence[Point]
    axes: Sequence[str]
    channel: str = ALL
    cells: Sequence[Cell] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", _cells(self.points, self.axes, self.channel))

    @property
    def sizes(self) -> dict[str, list[Cell]]:
        """Group the cells by size, the smallest first."""
        found = grouped((cell.size, cell) for cell in self.cells)
        largest = {size: max(point.parameters for cell in own for point in cell.points) for size, own in found.items()}
        return {size: found[size] for size in sorted(found, key=lambda size: largest[size])}


def shown(value: Any) -> str:
    """`value` in a few characters."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_point(directory: Path) -> Point:
    """Read the directory of a finished pretrain step. Raises InputError: it is none."""
    done = read_done(directory)
    if done is None or done["made_from"]["step"] != STAGE:
        raise InputError(f"{directory} is no finished {STAGE} step: a sweep compares such alone")
    outputs, ran = read_outputs(directory), read_record(directory / RUN)
    model = open_architecture(directory / outputs["final"])
    body = model.parameters() - model.parameters("embedding", "head")
    losses = {name: float(each["bpb"]) for name, each in sorted(outputs["heldout"].items())}
    config = {**ran.get("config", {}), **done["made_from"]["config"]}
    return Point(done["made_from"]["part"] or directory.name, config, losses, body, model.parameters(),
                 float(ran.get("seconds") or 0.0))


def check_channel(points: Iterable[Point], channel: str) -> None:
    """Check that every point has a loss of `channel`. Raises InputError: one has none; names the channels."""
    names = sorted({name for point in points for name in point.losses})
    if channel != ALL and channel not in names:
        raise InputError(f"channel is {channel!r}, allowed: {ALL}, {', '.join(names)}; {likely(channel, names)}")


def _cells(points: Sequence[Point], axes: Sequence[str], channel: str) -> list[Cell]:
    sizes = [name for name in axes if is_size(name)]
    others = [name for name in axes if not is_size(name) and name != f"{STAGE}.seed"]
    found: dict[str, tuple[str, tuple[Setting, ...], list[Point]]] = {}
    for point in points:
        settings = tuple((name, point.value(name)) for name in others)
        label = ", ".join(f"{name.rpartition('.')[2]}={_size_value(point.value(name))}" for name in sizes)
        found.setdefault(json.dumps([label, settings], sort_keys=True), (label, settings, []))[2].append(point)
    return [Cell(label, settings, tuple(own), channel) for label, settings, own in found.values()]


def _size_value(value: Any) -> str:
    if not isinstance(value, Mapping):
        return shown(value)
    return f"{value.get('hidden_size')}x{value.get('num_hidden_layers')}"


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
    tests = {number: pooled_test(cell.mean - best.mean, noise.sd, noise.df, (len(best.points), len(cell.points)))
             for number, cell in enumerate(ordered) if cell is not best and noise.known and math.isfinite(cell.mean)}
    adjusted = correct({number: p for number, (_, p) in tests.items()}, DECISION)
    return [Ranked(best, 0.0, 0.0, 1.0)] + [
        Ranked(cell, cell.mean - best.mean, tests.get(number, (math.nan,))[0], adjusted.get(number, math.nan))
        for number, cell in enumerate(ordered) if cell is not best]


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
    return edge * 2 if near <= 0 or edge <= 0 else float(f"{edge * edge / near:.3g}")
