"""Layers of YAML and `a.b=value` overrides -> one frozen config. What comes later wins.

Mappings merge key by key; lists and values are replaced whole. The dotted overrides and their error wording
follow OLMo-core; the layers follow Hydra, without its language.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from argosy.config import Config
from argosy.config_explain import config_error
from argosy.config_fields import default_at, field_type, is_sequence
from argosy.errors import InputError
from argosy.yaml_file import KeyPath, parse_yaml, read_yaml

C = TypeVar("C", bound=Config)
Layer = Path | Mapping[str, Any]


def load(cls: type[C], layers: Sequence[Layer], overrides: Sequence[str] = ()) -> C:
    """Merge `layers` (YAML files or mappings), apply `overrides` such as `pretrain.betas.1=0.95`, validate.

    The value of an override is YAML. A number in its path is an index of a list; a single value for a list
    field is a list of one.

    Raises:
        InputError: a file that cannot be read, a key that does not exist (with the nearest one), a value that
            is not allowed; with the file and line, or the override, that it came from.
    """
    data: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    for layer in layers:
        merge(data, copy.deepcopy(_layer_data(layer, origins)))  # an override may write into a list of it
    for override in overrides:
        _apply(cls, data, override, origins)
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        raise config_error(cls, error, origins) from None


def merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merge `other` into `into`, mapping by mapping; what is not a mapping is replaced."""
    for key, value in other.items():
        if isinstance(value, Mapping):
            below = into.get(key)
            into[key] = dict(below) if isinstance(below, Mapping) else {}
            merge(into[key], value)
        else:
            into[key] = value


def _layer_data(layer: Layer, origins: dict[KeyPath, str]) -> Mapping[str, Any]:
    if isinstance(layer, Mapping):
        return layer
    file = read_yaml(layer)
    if not isinstance(file.data, dict):
        raise InputError(f"{layer} holds {type(file.data).__name__}, allowed: a mapping such as 'seed: 17'")
    origins.update({path: f"{layer}, line {line}" for path, line in file.lines.items()})
    return file.data


def _apply(cls: type[Config], data: dict[str, Any], override: str, origins: dict[KeyPath, str]) -> None:
    name, equals, text = override.partition("=")
    path: KeyPath = tuple(int(part) if part.isdigit() else part for part in name.strip().split("."))
    if not equals or "" in path:
        raise InputError(f"override {override!r} is not of the form stage.field=value, such as sft.seed=17")
    value = parse_yaml(text, f"override {override!r}")
    if is_sequence(field_type(cls, path)) and isinstance(value, str | int | float):
        value = [value]
    _set(cls, data, path, value, override)
    for known in [known for known in origins if known[: len(path)] == path]:
        del origins[known]
    for depth in range(1, len(path)):
        origins.setdefault(path[:depth], f"override {override!r}")
    origins[path] = f"override {override!r}"


def _set(cls: type[Config], data: dict[str, Any], path: KeyPath, value: Any, override: str) -> None:
    at: Any = data
    for depth, part in enumerate(path):
        if isinstance(part, int):
            _check_index(at, part, path[:depth], override)
        elif not isinstance(at, dict):
            raise InputError(f"override {override!r}: {_dotted(path[:depth])} is {at!r}, it has no fields")
        if depth == len(path) - 1:
            at[part] = value
            return
        if isinstance(path[depth + 1], int):  # a copy, never the caller's list
            known = at[part] if isinstance(part, int) or part in at else default_at(cls, path[: depth + 1])
            at[part] = list(known) if isinstance(known, list | tuple) else known
        elif not isinstance(part, int) and at.get(part) is None:
            at[part] = {}
        at = at[part]


def _check_index(at: Any, index: int, path: KeyPath, override: str) -> None:
    if not isinstance(at, list):
        raise InputError(f"override {override!r}: {_dotted(path)} is {at!r}, not a list, so it has no index {index}")
    if index >= len(at):
        raise InputError(f"override {override!r}: {_dotted(path)} has {len(at)} items, allowed: 0 to {len(at) - 1}")


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path)) or "the config"
