"""Layers of YAML and `a.b=value` overrides -> one frozen config. Later ones win.

Mappings merge key by key, but for those with another `name`; lists and values are replaced whole. The dotted overrides
and their error wording follow OLMo-core; the layers follow Hydra, without its language. An override's value is YAML,
with three shortcuts that its field's type decides: text needs no quotes (`name=2024`), a list field takes one value or
several with commas (`data.inputs=a.txt,b.jsonl`), and may be named several times."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from argosy.core.config.explain import likely, shown, validated
from argosy.core.config.schema import Config, KeyPath, default_at, field_type, is_sequence, is_text, item_type
from argosy.core.errors import InputError

BROKEN = "broken YAML"


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's numbers and booleans: PyYAML follows 1.1, where 1e-3 (no dot) is a string, 12:30:45 is
    45045, 010 is 8, and the key `on` is true."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; one that cannot be, such as the date 2024-99-99, is an error with its line."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


_TAGS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(0|[1-9][\d_]*|0b[01_]+|0x[\da-fA-F_]+)", "-+0123456789"),
    "float": (r"[-+]?((\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+|\d[\d_]*\.[\d_]*|\.\d[\d_]*"
              r"|\.(inf|Inf|INF))|\.(nan|NaN|NAN)", "-+0123456789.")}  # fmt: skip
_OURS = {f"tag:yaml.org,2002:{name}" for name in _TAGS}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OURS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
for _name, (_pattern, _first) in _TAGS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))

MOST_BYTES, MOST_VALUES, MOST_LEVELS = 10_000_000, 200_000, 50  # of a file; an alias counts as what it stands for
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class YamlFile:
    """The content of a YAML file, and the line of each value."""

    path: Path
    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)  # counted from 1


def parse_yaml(text: str, source: str = "value") -> Any:
    """Parse one YAML value, such as the right-hand side of an override. Raises InputError: it is not YAML; the message
    starts with `source`."""
    return copy.deepcopy(_parse(text, source)[0])


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file; an empty one is an empty mapping. Raises InputError: it cannot be read, is not UTF-8 or is not
    YAML (with the line), or has a key twice."""
    try:
        with open(path, "rb") as file:  # a device may have no end
            content = file.read(MOST_BYTES + 1)
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{path} has more than {MOST_BYTES:,} bytes, allowed: a file of YAML")
    data, lines = _parse(text, str(path))
    return YamlFile(path, {} if data is None else copy.deepcopy(data), lines)


@lru_cache(maxsize=64)  # a plan reads each suite a dozen times
def _parse(text: str, source: str) -> tuple[Any, dict[KeyPath, int]]:
    if wrong := _UNPRINTABLE.search(text):
        line = f", line {text.count(chr(10), 0, wrong.start()) + 1}" if "\n" in text else ""
        raise InputError(f"{source if source.isprintable() else ascii(source)}{line} {_of_no_text(wrong[0])}")
    lines: dict[KeyPath, int] = {}
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, lines
        _mark(root, (), lines, source)
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{source}{where}: {BROKEN}: {error.problem or error.context}") from None
    except RecursionError:
        raise InputError(f"{source}: nested deeper than {MOST_LEVELS} levels") from None
    except yaml.YAMLError as error:
        raise InputError(f"{source}: {BROKEN}: {error}") from None


def _of_no_text(character: str) -> str:
    return (f"has the character {character!a}, allowed: text in UTF-8 without control characters; a file whose name "
            "has one is to be renamed")


def _mark(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], source: str) -> None:
    """Record the line of every value below `node`, and refuse a key that is there twice."""
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(path) > MOST_LEVELS:  # also an alias that contains itself
        raise InputError(f"{source}, line {line}: nested deeper than {MOST_LEVELS} levels")
    if len(lines) > MOST_VALUES:
        raise InputError(f"{source}, line {line}: more than {MOST_VALUES:,} values, those that an alias stands for "
                         "counted each time")
    if isinstance(node, yaml.ScalarNode) and (wrong := _UNPRINTABLE.search(node.value)):
        raise InputError(f"{source}, line {line}: {'.'.join(map(str, path)) or 'the value'} {_of_no_text(wrong[0])}")
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _mark(item, (*path, index), lines, source)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            if below in lines:
                line = key.start_mark.line + 1
                raise InputError(f"{source}, line {line}: {key.value} is here twice (before: line {lines[below]})")
            if key.tag.endswith(":null"):
                raise InputError(f"{source}, line {key.start_mark.line + 1}: there is no key before ':'")
            lines[below] = key.start_mark.line + 1
            _mark(value, below, lines, source)


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
    several = isinstance(value, str) and "," in value and not right.strip().startswith(_QUOTED)
    parts = [part.strip() for part in right.split(",")] if several else [right]
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
    """Write the override's value into `data`. Raises InputError: something on the way is no mapping, or no list that is
    long enough."""
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
    """Merge `other` into `into`, mapping by mapping, but for one with another `name` (another engine)."""
    for key, value in other.items():
        if isinstance(value, Mapping):
            below = into.get(key)
            before = dict(below) if isinstance(below, Mapping) else {}
            into[key] = before if before.get("name") in (None, value.get("name", before.get("name"))) else {}
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
