"""Layers of YAML and `a.b=value` overrides -> one frozen config. Later ones win.

Mappings merge key by key; lists and values are replaced whole. The dotted overrides and their error wording
follow OLMo-core; the layers follow Hydra, without its language. An override's value is YAML, with three shortcuts that
its field's type decides: text needs no quotes (`name=2024`), a list field takes one value or several with commas
(`data.inputs=a.txt,b.jsonl`), and may be named several times."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from argosy.core.config.explain import likely, shown, validated
from argosy.core.config.schema import Config, default_at, field_type, is_sequence, is_text, item_type
from argosy.core.config.yaml import BROKEN, KeyPath, parse_yaml, read_yaml
from argosy.core.errors import InputError

C = TypeVar("C", bound=Config)
Layer = Path | Mapping[str, Any]
_QUOTED = ("'", '"')


@dataclass(frozen=True)
class Override:
    """`text`, as it was typed, sets `value` at `path`; `adds`: the field is a list."""

    text: str
    path: KeyPath
    value: Any
    adds: bool = False

    def after(self, given: "Mapping[KeyPath, Override]") -> "Override":
        """Return this one with the values of an earlier override of the same list."""
        before = given.get(self.path)
        if before is None or not (self.adds and isinstance(self.value, list) and isinstance(before.value, list)):
            return self
        return replace(self, text=f"{before.text} {self.text}", value=before.value + self.value)


def parse_override(cls: type[Config], text: str) -> Override:
    """Read `text` for a config of class `cls`. Raises InputError: it is not of that form, or its value is not YAML."""
    name, equals, right = text.partition("=")
    path: KeyPath = tuple(int(part) if part.isdigit() else part for part in name.strip().split("."))
    if not equals or "" in path:
        raise InputError(f"override {text!r} is not of the form stage.field=value, such as sft.seed=17; several values "
                         "of a list have commas between them, a value with spaces quotes around it all")
    kind = field_type(cls, path)
    return Override(text, path, _value(kind, right, text), is_sequence(kind))


def _value(kind: Any, right: str, text: str) -> Any:
    try:
        value = parse_yaml(right, text)
    except InputError as error:
        spaces = "; write quotes around an override with spaces: 'stage.field=[1, 2]'" if BROKEN in str(error) else ""
        raise InputError(f"{error}{spaces}") from None
    if is_sequence(kind):
        return _items(kind, value, right, text)
    if is_text(kind) and value is not None and not isinstance(value, list | dict | str):
        return right.strip()
    return value


def _items(kind: Any, value: Any, right: str, text: str) -> Any:
    """Return the list that one value, or several with commas, stand for."""
    if value is None or isinstance(value, list | dict):
        return value
    if isinstance(value, str) and "," in value and not right.strip().startswith(_QUOTED):
        parts = [part.strip() for part in right.split(",")]
    else:
        parts = [right]
    below = item_type(kind)
    return [_value(below, part, text) for part in parts if part]


def by_index(data: Any, override: Override) -> Override:
    """Return `override` with the names of a list's items (`branches.a.seed`, of items with a field `name`) as indices.

    Raises InputError: no item is called so."""
    at, path = data, list(override.path)
    for depth, part in enumerate(path):
        if isinstance(at, list) and isinstance(part, str):
            names = [str(item.get("name")) if isinstance(item, dict) else "" for item in at]
            if not any(names):
                break
            if part not in names:
                raise InputError(f"{override.text}: {_dotted(override.path[:depth])} has no item called {part!r}; "
                                 f"{likely(part, names)}")
            path[depth] = part = names.index(part)
        try:
            at = at[part]
        except (KeyError, IndexError, TypeError):  # set_at says what is wrong there, or makes it
            break
    return replace(override, path=tuple(path))


def set_at(cls: type[Config], data: dict[str, Any], override: Override) -> None:
    """Write the override's value into `data`.

    Raises InputError: something on the way is no mapping, or no list that is long enough."""
    at: Any = data
    path = override.path
    for depth, part in enumerate(path):
        if isinstance(part, int):
            _check_index(at, part, path[:depth], override.text)
        elif not isinstance(at, dict):
            raise InputError(f"{override.text}: {_dotted(path[:depth])} is {shown(at)}, it has no fields")
        if depth == len(path) - 1:
            at[part] = override.value
            return
        if isinstance(path[depth + 1], int):  # a copy, never the caller's list
            known = at[part] if isinstance(part, int) or part in at else default_at(cls, path[: depth + 1])
            at[part] = list(known) if isinstance(known, list | tuple) else known
        elif not isinstance(part, int) and at.get(part) is None:
            at[part] = {}
        at = at[part]


def _check_index(at: Any, index: int, path: KeyPath, text: str) -> None:
    if not isinstance(at, list):
        raise InputError(f"{text}: {_dotted(path)} is {shown(at)}, not a list, so it has no index {index}")
    if index >= len(at):
        items = "no item" if not at else "1 item" if len(at) == 1 else f"{len(at)} items"
        allowed = f"allowed: {_dotted(path)}.0" + (f" to {len(at) - 1}, " if len(at) > 1 else ", ") if at else ""
        raise InputError(f"{text}: {_dotted(path)} has {items}; {allowed}or the whole list, {_dotted(path)}=[a, b]")


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path)) or "the config"


def load(cls: type[C], layers: Sequence[Layer], overrides: Sequence[str] = ()) -> C:
    """Merge `layers` (YAML files or mappings), apply `overrides` such as `pretrain.betas.1=0.95`, validate.

    Raises InputError: a file that cannot be read, a key that does not exist (with the nearest one), a value that is
    not allowed; after the file and line, or the override, that it came from."""
    data: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    for layer in layers:
        merge(data, copy.deepcopy(_layer_data(layer, origins)))  # an override may write into a list of it
    given: dict[KeyPath, Override] = {}
    for text in overrides:
        override = by_index(data, parse_override(cls, text)).after(given)
        given[override.path] = override
        set_at(cls, data, override)
        path = override.path  # errors at its value, and at the mappings that it made on the way, are its own
        for known in [known for known in origins if known[: len(path)] == path]:
            del origins[known]
        for depth in range(1, len(path)):
            origins.setdefault(path[:depth], override.text)
        origins[path] = override.text
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
