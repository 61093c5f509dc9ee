"""YAML as people write it: every error names file and line, a key given twice is one, 1e-3 is a number, and on, off,
yes and no are words."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from argosy.core.errors import InputError

KeyPath = tuple[str | int, ...]
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
              r"|\.(inf|Inf|INF))|\.(nan|NaN|NAN)", "-+0123456789."),
}  # fmt: skip
_OURS = {f"tag:yaml.org,2002:{name}" for name in _TAGS}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OURS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
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
    """Parse one YAML value, such as the right-hand side of an override.

    Raises InputError: it is not YAML; the message starts with `source`."""
    return _parse(text, source)[0]


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file; an empty one is an empty mapping.

    Raises InputError: it cannot be read, is not UTF-8 or is not YAML (with the line), or has a key twice."""
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
    return YamlFile(path, {} if data is None else data, lines)


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
