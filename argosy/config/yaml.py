"""YAML as people write it: every error names file and line, a key given twice is one, 1e-3 is a number, and on, off,
yes and no are words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from argosy.errors import InputError

KeyPath = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's floats and booleans: PyYAML follows 1.1, where 1e-3 (no dot) is a string and the key
    `on` is true."""


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$|^[-+]?\.\d+([eE][-+]?\d+)?$"),
    list("-+0123456789."),
)


@dataclass(frozen=True)
class YamlFile:
    """The content of a YAML file, and the line of each value."""

    path: Path
    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)  # counted from 1


def parse_yaml(text: str, source: str = "value") -> Any:
    """Parse one YAML value, such as the right-hand side of an override.

    Raises:
        InputError: it is not YAML; the message starts with `source`.
    """
    return _parse(text, source)[0]


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file; an empty one is an empty mapping.

    Raises:
        InputError: it cannot be read, is not UTF-8 or is not YAML (with the line), or has a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    data, lines = _parse(text, str(path))
    return YamlFile(path, {} if data is None else data, lines)


def _parse(text: str, source: str) -> tuple[Any, dict[KeyPath, int]]:
    loader = _Loader(text)
    lines: dict[KeyPath, int] = {}
    try:
        root = loader.get_single_node()
        if root is None:
            return None, lines
        _mark(root, (), lines, source)
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{source}{where}: broken YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:  # a control character; a date such as 2024-99-99
        raise InputError(f"{source}: broken YAML: {error}") from None
    finally:
        loader.dispose()


def _mark(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], source: str) -> None:
    """Record the line of every value below `node`, and refuse a key that is there twice."""
    lines.setdefault(path, node.start_mark.line + 1)
    if len(path) > 50:  # also an alias that contains itself
        raise InputError(f"{source}, line {node.start_mark.line + 1}: nested deeper than 50 levels")
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _mark(item, (*path, index), lines, source)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            if below in lines:
                line = key.start_mark.line + 1
                raise InputError(f"{source}, line {line}: {key.value} is here twice (before: line {lines[below]})")
            lines[below] = key.start_mark.line + 1
            _mark(value, below, lines, source)
