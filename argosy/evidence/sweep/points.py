"""The points of a sweep as they ran: settings, held-out losses by channel, size; and cells of equal settings."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN, read_done, read_outputs
from argosy.evidence.sweep.grid import STAGE
from argosy.model.train.sizing.architecture import open_architecture

ALL = "all"
Setting = tuple[str, Any]
DIVERGED = "is not a finite number"  # of the error that training ends with (argosy/model/train/updates.py)


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
        """List the losses of its runs."""
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
        """Name its settings for people."""
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
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(cell.size, []).append(cell)
        largest = {size: max(point.parameters for cell in own for point in cell.points) for size, own in found.items()}
        return {size: found[size] for size in sorted(found, key=lambda size: largest[size])}


def shown(value: Any) -> str:
    """`value` in a few characters."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def is_size(name: str) -> bool:
    """Tell whether a field decides the model's size or shape."""
    return name == f"{STAGE}.model" or name.startswith(f"{STAGE}.model.")


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
        key = json.dumps([label, settings], sort_keys=True)
        found.setdefault(key, (label, settings, []))[2].append(point)
    return [Cell(label, settings, tuple(own), channel) for label, settings, own in found.values()]


def _size_value(value: Any) -> str:
    if not isinstance(value, Mapping):
        return shown(value)
    return f"{value.get('hidden_size')}x{value.get('num_hidden_layers')}"
