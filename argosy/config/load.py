"""Layers of YAML and `a.b=value` overrides -> one frozen config. Later ones win.

Mappings merge key by key; lists and values are replaced whole. The dotted overrides and their error wording
follow OLMo-core; the layers follow Hydra, without its language.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from argosy.config.explain import validated
from argosy.config.override import Override, parse_override, set_at
from argosy.config.schema import Config
from argosy.config.yaml import KeyPath, read_yaml
from argosy.errors import InputError

C = TypeVar("C", bound=Config)
Layer = Path | Mapping[str, Any]


def load(cls: type[C], layers: Sequence[Layer], overrides: Sequence[str] = ()) -> C:
    """Merge `layers` (YAML files or mappings), apply `overrides` such as `pretrain.betas.1=0.95`, validate.

    An override's value is YAML; `argosy.config.override` has the rules of it. A list field that several overrides
    name gets the values of all of them.

    Raises:
        InputError: a file that cannot be read, a key that does not exist (with the nearest one), a value that
            is not allowed; after the file and line, or the override, that it came from.
    """
    data: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    for layer in layers:
        merge(data, copy.deepcopy(_layer_data(layer, origins)))  # an override may write into a list of it
    given: dict[KeyPath, Override] = {}
    for text in overrides:
        override = parse_override(cls, text).after(given)
        given[override.path] = override
        set_at(cls, data, override)
        _note(override, origins)
    return validated(cls, data, origins, given)


def merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merge `other` into `into`, mapping by mapping; lists and values are replaced."""
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
    for path, line in file.lines.items():
        if path:  # the whole file is no place to look in
            origins.pop(path, None)  # what is noted last wins
            origins[path] = f"{layer}, line {line}"
    return file.data


def _note(override: Override, origins: dict[KeyPath, str]) -> None:
    """Attribute to `override` the errors at the value that it sets and at the mappings that it made on the way."""
    path = override.path
    for known in [known for known in origins if known[: len(path)] == path]:
        del origins[known]
    for depth in range(1, len(path)):
        origins.setdefault(path[:depth], override.text)
    origins[path] = override.text
