"""pydantic's errors as a person wants them: the field's path, the value, what is allowed, where it was written."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from argosy.config_fields import field_type, models_at
from argosy.errors import InputError
from argosy.yaml_file import KeyPath

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def config_error(
    cls: type[BaseModel], error: ValidationError, origins: Mapping[KeyPath, str] | None = None
) -> InputError:
    """One InputError with a line for each thing that is wrong; `origins` says where the value at a path was written."""
    lines = dict.fromkeys(_line(cls, detail, origins or {}) for detail in error.errors(include_url=False))
    return InputError("\n".join(lines))


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that `name` may have meant, the likeliest first."""
    return difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)


def _line(cls: type[BaseModel], detail: ErrorDetails, origins: Mapping[KeyPath, str]) -> str:
    path = _path(cls, detail["loc"])
    name = ".".join(map(str, path)) or cls.__name__
    where = next((origins[path[:n]] for n in range(len(path), -1, -1) if path[:n] in origins), "")
    return f"{name} {_problem(cls, path, detail)}" + (f" ({where})" if where else "")


def _path(cls: type[BaseModel], loc: tuple[int | str, ...]) -> KeyPath:
    """`loc` without the names of union members that pydantic puts between the fields."""
    path: KeyPath = ()
    for index, part in enumerate(loc):
        if field_type(cls, (*path, part)) is not None or index == len(loc) - 1:
            path = (*path, part)
    return path


def _problem(cls: type[BaseModel], path: KeyPath, detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return _unknown(cls, path)
    if detail["type"] == "missing":
        return "is missing, and has no default"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if detail["type"] in ("value_error", "assertion_error"):
        return f"is wrong: {message}"
    value = "a mapping" if isinstance(detail["input"], dict | BaseModel) else repr(detail["input"])
    hint = "; write it in quotes" if detail["type"] == "string_type" else ""
    return f"is {value}, allowed: {message.removeprefix('Input should be ')}{hint}"


def _unknown(cls: type[BaseModel], path: KeyPath) -> str:
    *parents, name = path
    known = [field for model in models_at(cls, parents) for field in model.model_fields]
    found = [".".join(map(str, [*parents, near])) for near in nearest(str(name), known)]
    return "is not a field; " + (f"nearest: {', '.join(found)}" if found else f"fields here: {', '.join(known)}")
