"""pydantic's errors as a person wants them: where it was written, the field's path, the value, what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from argosy.config_allowed import allowed, shown
from argosy.config_fields import field_type, models_at
from argosy.errors import InputError
from argosy.yaml_file import KeyPath

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_KEY = "[key]"  # pydantic's sign that not the value but the key of a mapping is wrong
_OWN = ("value_error", "assertion_error")  # raised by validators of ours, in words of ours


def config_error(
    cls: type[BaseModel],
    error: ValidationError,
    origins: Mapping[KeyPath, str] | None = None,
    typed: Collection[KeyPath] = (),
) -> InputError:
    """One InputError with a line for each thing that is wrong.

    Args:
        origins: where the value at a path was written: `FILE, line N`, or the override; the layer that wins last.
        typed: the paths of overrides.
    """
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path(cls, detail["loc"]), []).append(detail)
    lines = []
    for path, details in found.items():
        problem = _problem(cls, path, details)
        where = _where(path, problem if details[0]["type"] in _OWN else "", origins or {}, typed)
        lines.append(f"{where}: {problem}" if where else problem)
    if len(lines) == 1:
        return InputError(lines[0])
    return InputError("\n  ".join((f"{len(lines)} things are wrong:", *lines)))


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that `name` may have meant, the likeliest first."""
    return difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)


def likely(name: str, known: Iterable[str], otherwise: str = "there are", most: int = 0) -> str:
    """`nearest: a, b`; where nothing is near, `there are: ...` with the first `most` (0: all) of `known`, if any."""
    names = list(known)
    if near := nearest(name, names):
        return f"nearest: {', '.join(near)}"
    more = f" and {len(names) - most} more" if 0 < most < len(names) else ""
    return f"{otherwise}: {', '.join(names[:most or None])}{more}" if names else ""


def _where(path: KeyPath, message: str, origins: Mapping[KeyPath, str], typed: Collection[KeyPath]) -> str:
    """A validator of several fields fails at what holds them: then the one that its `message` names is meant."""
    if message:
        below = [at for at in reversed(list(origins)) if len(at) > len(path) and at[: len(path)] == path]
        words = set(re.findall(r"\w+", message))
        named = [at for at in below if words.issuperset(map(str, at[len(path):]))]
        # An override is the news: what is in a file was fine before it.
        chosen = [at for at in (*named, *below) if at in typed] + named
        if chosen:
            return origins[chosen[0]]
    return next((origins[path[:n]] for n in range(len(path), -1, -1) if path[:n] in origins), "")


def _path(cls: type[BaseModel], loc: tuple[int | str, ...]) -> KeyPath:
    """`loc` without the names of union members that pydantic puts between and behind the fields."""
    path: KeyPath = ()
    for index, part in enumerate(loc):
        last = index == len(loc) - 1 and (part == _KEY or models_at(cls, path))
        if last or field_type(cls, (*path, part)) is not None:
            path = (*path, part)
    return path


def _problem(cls: type[BaseModel], path: KeyPath, details: list[ErrorDetails]) -> str:
    first, key = details[0], path[-1:] == (_KEY,)
    path = path[:-2] if key else path
    name = ".".join(map(str, path))
    if first["type"] == "extra_forbidden":
        return f"{name} {_unknown(cls, path)}"
    if first["type"] == "missing":
        return f"{name} is missing, and has no default"
    if first["type"] in _OWN:
        message = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return f"{name} is wrong: {message}" if name else message
    if key:
        return f"{name} has the key {shown(first['input'])}, allowed: {allowed(cls, (), details)}"
    return f"{name or 'the config'} is {shown(first['input'])}, allowed: {allowed(cls, path, details)}"


def _unknown(cls: type[BaseModel], path: KeyPath) -> str:
    *parents, name = path
    known = [field for model in models_at(cls, parents) for field in model.model_fields]
    found = [".".join(map(str, [*parents, near])) for near in nearest(str(name), known)]
    return "is not a field; " + (f"nearest: {', '.join(found)}" if found else f"fields here: {', '.join(known)}")
