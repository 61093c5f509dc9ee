"""The grid of a sweep, read from overrides: fields of several values are its axes, each combination is a point."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from argosy.core.config.load import parse_override, parse_yaml
from argosy.core.config.schema import Config, field_type, is_sequence
from argosy.core.errors import InputError

STAGE = "pretrain"
SEED = f"{STAGE}.seed"
DIVERGED = "is not a finite number"  # of the error that training ends with (argosy/model/train)
MOST_POINTS = 200  # as many as Argo 4 takes tasks of a DAG
_HOW = f"one value, or several with commas, such as {STAGE}.learning_rate=1e-3,3e-3"


@dataclass(frozen=True)
class Axis:
    """A field with the values that it takes in turn, as they were typed."""

    field: str
    """Field with its stage: `pretrain.learning_rate`."""
    values: tuple[str, ...]

    def overrides(self) -> list[str]:
        """Return an override for each value."""
        return [f"{self.field}={value}" for value in self.values]


@dataclass(frozen=True)
class Grid:
    """Fields that all points share, and the axes in which they differ."""

    fixed: tuple[str, ...]
    """Overrides that every point has."""
    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[list[str]]:
        """Yield the overrides of each point, `fixed` aside; the last axis changes fastest."""
        for chosen in product(*(axis.overrides() for axis in self.axes)):
            yield list(chosen)


def is_size(name: str) -> bool:
    """Tell whether a field decides the model's size or shape."""
    return name == f"{STAGE}.model" or name.startswith(f"{STAGE}.model.")


def read_grid(cls: type[Config], overrides: Sequence[str], seeds: int = 0, first_seed: int = 0) -> Grid:
    """Read the grid of `overrides` for a config of class `cls`.

    Args:
        seeds: as many seeds of each point, from `first_seed` on; 0 leaves the seed to `overrides`.

    Raises InputError: a field without a value, with one value twice, named twice, that no sweep varies; no field with
    several values; more than 200 points."""
    fixed, axes = [], list[Axis]()
    for text in overrides:
        values = _values(cls, text)
        if len(values) == 1:
            fixed.append(f"{text.partition('=')[0].strip()}={values[0]}")
            continue
        axes.append(_axis(cls, text, values))
    if seeds > 1:
        given = [text for text in overrides if text.partition("=")[0].strip() == SEED]
        if given:
            raise InputError(f"--seeds {seeds} and {given[0]} both set the seeds: give one of them")
        axes.append(Axis(SEED, tuple(str(first_seed + number) for number in range(seeds))))
    _check(fixed, axes)
    return Grid(tuple(fixed), tuple(axes))


def _check(fixed: Sequence[str], axes: Sequence[Axis]) -> None:
    names = [axis.field for axis in axes]
    for name in names:
        if names.count(name) > 1 or any(text.partition("=")[0] == name for text in fixed):
            raise InputError(f"{name} is given more than once, allowed: {_HOW}; write all of its values in one place")
    if not axes:
        raise InputError(f"a sweep varies something: give a field of {STAGE} several values with commas, such as "
                         f"{STAGE}.learning_rate=1e-3,3e-3, or --seeds 3")
    grid = Grid((), tuple(axes))
    if len(grid) > MOST_POINTS:
        sizes = " x ".join(f"{len(axis.values)} of {axis.field}" for axis in axes)
        raise InputError(f"the sweep has {len(grid)} points ({sizes}), allowed: {MOST_POINTS}, as many tasks as a "
                         "DAG of Argo has; sweep part of it first, and extend it: points that have run are reused")


def _values(cls: type[Config], text: str) -> list[str]:
    """Return the values of an override, as they were typed; a list field has one, which is the list."""
    name, equals, right = text.partition("=")
    right = right.strip()
    path = tuple(int(part) if part.isdigit() else part for part in name.strip().split("."))
    if not equals or is_sequence(field_type(cls, path)) or right.startswith(("{", "'", '"')):
        return [right] if equals else [_refuse(text)]
    if right.startswith("["):
        parsed = parse_yaml(right, text)
        values = [json.dumps(value, ensure_ascii=False) for value in parsed] if isinstance(parsed, list) else [right]
    else:
        values = [value.strip() for value in right.split(",")]
    if not values or "" in values:
        raise InputError(f"{text}: {name.strip()} has an empty value, allowed: {_HOW}")
    return values


def _refuse(text: str) -> str:
    raise InputError(f"{text!r} is not of the form {STAGE}.field=value,value, such as {STAGE}.learning_rate=1e-3,3e-3")


def _axis(cls: type[Config], text: str, values: Sequence[str]) -> Axis:
    name = text.partition("=")[0].strip()
    if not name.startswith(f"{STAGE}."):
        raise InputError(f"{text}: {name} has {len(values)} values, and a sweep varies fields of {STAGE} alone: all of "
                         f"its points share the stages before; give {name} one value")
    found: dict[Any, str] = {}
    for value in values:
        key = _key(parse_override(cls, f"{name}={value}").value)
        if key in found:
            same = value if found[key] == value else f"{found[key]} and {value}, which are the same,"
            raise InputError(f"{text}: {name} has {same} twice, allowed: each value once; --seeds 3 repeats points "
                             "with other seeds")
        found[key] = value
    return Axis(name, tuple(values))


def _key(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else json.dumps(value, sort_keys=True)
