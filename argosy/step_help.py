"""`--help` of a step: its docstring and every field of its config, nested ones too."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from argosy.config import Config, Role, role_of
from argosy.step import Step

_ROLES = {
    Role.UPSTREAM: "a directory that an upstream step wrote",
    Role.EXTERNAL: "a path from outside; its bytes count as input",
    Role.RUNTIME: "cannot change the result",
}


class HelpAction(argparse.Action):
    """Prints the step's docstring, the options, the config's fields; exits 0."""

    def __init__(self, option_strings: list[str], dest: str, step: Step[Any], help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)
        self._step = step

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        document = inspect.getdoc(sys.modules[self._step.run.__module__]) or inspect.getdoc(self._step.run) or ""
        print(document, parser.format_help(), "config (JSON):", sep="\n\n")
        for line in describe_fields(self._step.config):
            print(line)
        parser.exit()


def describe_fields(cls: type[Config], indent: str = "  ") -> Iterator[str]:
    """A line for each field, `name: type = default`, and what it means below; nested configs indented."""
    comments = _documented(cls)
    for name, field in cls.model_fields.items():
        nested = next(_configs(field.annotation), None)
        yield f"{indent}{name}: {_type_text(field.annotation)}{_default(field, nested)}"
        notes = [field.description or comments.get(name, ""), _ROLES.get(role_of(field), "")]  # type: ignore[arg-type]
        if text := "; ".join(note.strip() for note in notes if note):
            yield textwrap.fill(text, 110, initial_indent=indent + "    ", subsequent_indent=indent + "    ")
        if nested is not None:
            yield from describe_fields(nested, indent + "  ")


def _default(field: FieldInfo, nested: type[Config] | None) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "  (required)"
    if nested is not None and isinstance(value, BaseModel):
        return ""  # its own fields are listed below
    return f" = {json.dumps(value, ensure_ascii=False, default=str)}"


def _configs(annotation: Any) -> Iterator[type[Config]]:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _configs(argument)


def _type_text(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type_text(argument) for argument in arguments)
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in arguments)
    if origin is typing.Annotated:
        return _type_text(arguments[0])
    if origin is not None:
        inner = ", ".join("..." if a is Ellipsis else _type_text(a) for a in arguments)
        return f"{origin.__name__}[{inner}]"
    return getattr(annotation, "__name__", str(annotation)).replace("NoneType", "null")


def _documented(cls: type[Config]) -> dict[str, str]:
    """What the source says of each field: a string below it, a comment behind it, the class's `Attributes:`."""
    found: dict[str, str] = {}
    for base in reversed([c for c in cls.__mro__ if issubclass(c, Config) and c is not Config]):
        found |= _attributes(inspect.getdoc(base) or "")
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):
            continue
        found |= _from_source(source)
    return found


def _attributes(document: str) -> dict[str, str]:
    section = document.partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _from_source(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = source.splitlines()
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        comment = lines[statement.end_lineno - 1][statement.end_col_offset:].strip()  # type: ignore[operator]
        if comment.startswith("#") and not comment.startswith("# type:"):
            found[statement.target.id] = comment.lstrip("# ")
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[statement.target.id] = " ".join(str(following.value.value).split())
    return found
