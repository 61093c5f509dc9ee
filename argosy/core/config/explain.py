"""Errors of pydantic in plain words: where a value was written, the field's path, the value, what is allowed."""

import difflib
import json
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from argosy.core.config import schema
from argosy.core.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, InitErrorDetails

C = TypeVar("C", bound=BaseModel)
P = TypeVar("P", bound=schema.ParallelConfig)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_LONGEST = 80  # characters of a value that are shown
_FIELDS = 6  # fields of a mapping that are named
_LIST = "a list"
_ALLOWED: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_MODELS = ("model_type", "model_attributes_type")
_NUMBERS = ("a number", "a whole number")
_BOUNDS = {"gt": " above {:g}", "ge": " from {:g} on", "lt": ", below {:g}", "le": ", up to {:g}"}


def allowed(cls: type[BaseModel], path: schema.KeyPath, details: "list[ErrorDetails]") -> str:
    """Describe what may be at `path`; `details` are one for each type of a union."""
    found = list(dict.fromkeys(_one(cls, path, detail) for detail in details))
    if schema.is_nullable(cls, path) and "null" not in found:
        found.append("null")
    text = ", or ".join(found)
    scalar = not isinstance(details[0]["input"], list | tuple | Mapping) and details[0]["input"] is not None
    return text + ("; write it in quotes" if scalar and all(d["type"] == "string_type" for d in details) else "")


def shown(value: Any) -> str:
    """`value` as a person wrote it, shortened."""
    if value is None:
        return "empty (null)"
    if isinstance(value, Mapping | BaseModel):
        return "a mapping"
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _one(cls: type[BaseModel], path: schema.KeyPath, detail: "ErrorDetails") -> str:
    kind = detail["type"]
    if kind in _MODELS:
        return _fields(cls, path)
    if kind not in _ALLOWED:
        return detail["msg"].removeprefix("Input should be ")
    text = _ALLOWED[kind].format(**detail.get("ctx", {}))
    if text == _LIST:
        value = detail["input"]
        return f"{_LIST}, such as [{value}]" if isinstance(value, str | int | float) else f"{_LIST}, such as [a, b]"
    if kind == "string_pattern_mismatch":
        forms = (mark for mark in _marks(cls, path) if getattr(mark, "examples", None))
        return next((f"{mark.title or text}, such as {' or '.join(mark.examples)}" for mark in forms), text)
    if text not in _NUMBERS and not kind.startswith(("greater_", "less_")):
        return text
    example = schema.default_at(cls, path)
    return (_number(cls, path) or text) + (f", such as {shown(example)}" if isinstance(example, int | float) else "")


def _number(cls: type[BaseModel], path: schema.KeyPath) -> str:
    """Describe the numbers that may be at `path`; "" where it takes none, or of two types."""
    kinds = {int, float} & set(schema.alternatives(schema.field_type(cls, path)))
    bounds = [(name, bound) for mark in _marks(cls, path) for name in _BOUNDS if (bound := getattr(mark, name, None))
              is not None]
    found = dict(reversed(bounds))  # the outermost
    limits = "".join(text.format(found[name]) for name, text in _BOUNDS.items() if name in found)
    return ("a number" if float in kinds else "a whole number") + limits if len(kinds) == 1 else ""


def _marks(cls: type[BaseModel], path: schema.KeyPath) -> Iterator[Any]:
    """Yield what pydantic and annotated_types say of the field at or above `path` and of the types in it."""
    for end in range(len(path), 0, -1):
        fields = [model.model_fields.get(str(path[end - 1])) for model in schema.models_at(cls, path[: end - 1])]
        if found := [field for field in fields if field]:
            yield from (mark for field in found for mark in (field, *field.metadata, *_within(field.annotation)))
            return


def _within(annotation: Any) -> Iterator[Any]:
    for part in get_args(annotation):
        yield from (part, *getattr(part, "metadata", ()), *_within(part))


def _fields(cls: type[BaseModel], path: schema.KeyPath) -> str:
    """List the fields below `path` that a person sets: the graph fills in the upstream ones."""
    fields = {name: info for model in schema.models_at(cls, path) for name, info in model.model_fields.items()}
    names = [name for name, info in fields.items() if schema.role_of(info) is not schema.Role.UPSTREAM]
    defaults = {name: schema.default_at(cls, (*path, name)) for name in names}
    examples = (f", such as {{{name}: {value}}}" for name, value in defaults.items() if isinstance(value, int | float))
    more = ", ..." if len(names) > _FIELDS else ""
    if not names:
        return "{}, since the pipeline sets all of its fields"
    return f"a mapping of its fields ({', '.join(names[:_FIELDS])}{more}){next(examples, '')}"


_MEMBER = re.compile(r"constrained-|(dict|list|tuple|set)\[")  # names of union members that no field has
_KEY = "[key]"  # pydantic's sign that not the value but the key of a mapping is wrong
_OWN = ("value_error", "assertion_error")  # raised by validators of ours, in words of ours


def config_error(cls: type[BaseModel], error: ValidationError, origins: Mapping[schema.KeyPath, str] | None = None,
                 typed: Collection[schema.KeyPath] = ()) -> InputError:
    """Make one InputError with a line for each thing that is wrong; what aliases share in YAML is told once.

    `origins`: where the value at a path was written: `FILE, line N`, or the override; the layer that wins last.
    `typed`: the paths of overrides."""
    found: dict[schema.KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        loc = tuple(map(str, detail["loc"])) if detail["type"] == "invalid_key" else detail["loc"]  # as YAML has keys
        found.setdefault(_path(cls, loc), []).append(detail)
    told: dict[tuple[str, ...], list[str]] = {}
    for path, details in found.items():
        problem = _problem(cls, path, details)
        own, name = details[0]["type"] in _OWN, ".".join(map(str, path))
        where = _where(path, problem if own else "", origins or {}, typed)
        same = where, "" if own else str(path[-1:]), problem.removeprefix(name) if where else problem
        before = told.setdefault(same, [])
        before.append(name if before else f"{where}: {problem}" if where else problem)
    lines = [first + f" (so too {first_of(others, 3)})" * bool(others) for first, *others in told.values()]
    if len(lines) == 1:
        return InputError(lines[0])
    return InputError("\n  ".join((f"{len(lines)} things are wrong:", *lines)))


def validated(cls: type[C], data: Mapping[str, Any], origins: Mapping[schema.KeyPath, str] | None = None,
              typed: Collection[schema.KeyPath] = ()) -> C:
    """Validate a config. true and false are no numbers, which pydantic would take them for; nor is what no file holds.
    Raises InputError: it is wrong (see `config_error`)."""
    try:
        if wrong := list(_no_numbers(cls, data, ())):
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return cls.model_validate(data)
    except ValidationError as error:
        raise config_error(cls, error, origins, typed) from None


def resized(config: P, count: int) -> P:
    """Return the config of a step on another number of nodes, with as many processes on each; of a step on one node,
    with another number of processes. Raises InputError: the batch or the layout does not take them."""
    given = config.model_dump(mode="json", exclude_unset=True)
    unit, each = ("nodes", config.processes // config.nodes) if config.nodes > 1 else ("processes", 1)
    least = min(count, getattr(config, f"min_{unit}"))
    return validated(type(config), {**given, unit: count, "processes": each * count, f"min_{unit}": least})


def _no_numbers(cls: type[BaseModel], value: Any, path: schema.KeyPath) -> "Iterator[InitErrorDetails]":
    if isinstance(value, Mapping | list):
        for key, below in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _no_numbers(cls, below, (*path, key))
    elif isinstance(value, int) and (isinstance(value, bool) or abs(value) >= 2**63):
        kinds = set(schema.alternatives(schema.field_type(cls, path)))
        if kinds & {int, float} and type(value) not in kinds - {int}:
            kind = "float_type" if float in kinds else "int_type"
            yield {"type": kind if isinstance(value, bool) else "int_parsing_size", "loc": path, "input": value}


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of `known` that `name` may have meant, the likeliest first."""
    return difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)


def likely(name: str, known: Iterable[str], otherwise: str = "there are", most: int = 0) -> str:
    """`nearest: a, b`; where nothing is near, `there are: ...` with the first `most` (0: all) of `known`, if any."""
    names = list(known)
    if near := nearest(name, names):
        return f"nearest: {', '.join(near)}"
    return f"{otherwise}: {first_of(names, most or len(names))}" if names else ""


def numbered(names: Sequence[str]) -> list[str]:
    """Tell names apart: one that comes again has a number, as in "language-2"."""
    return [name if name not in names[:at] else f"{name}-{names[:at].count(name) + 1}" for at, name in enumerate(names)]


def first_of(names: Sequence[str], most: int, joint: str = ", ") -> str:
    """Join the first `most` of `names`, and say how many more there are."""
    return joint.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Gather the values of each key, the keys in the order in which they first come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _where(path: schema.KeyPath, message: str, origins: Mapping[schema.KeyPath, str],
           typed: Collection[schema.KeyPath]) -> str:
    """Find where the value was written. A validator of several fields fails at their parent: its `message` names it."""
    if message:
        below = [at for at in reversed(list(origins)) if len(at) > len(path) and at[: len(path)] == path]
        words = set(re.findall(r"\w+", message))
        named = [at for at in below if words.issuperset(map(str, at[len(path):]))]
        # An override is the news: what is in a file was fine before it.
        chosen = [at for at in (*named, *below) if at in typed] + named
        if chosen:
            return origins[chosen[0]]
    return next((origins[path[:n]] for n in range(len(path), -1, -1) if path[:n] in origins), "")


def _path(cls: type[BaseModel], loc: tuple[int | str, ...]) -> schema.KeyPath:
    """`loc` without the names of union members that pydantic puts between and behind the fields."""
    path: schema.KeyPath = ()
    for index, part in enumerate(each for each in loc if not _MEMBER.match(str(each))):
        last = index == len(loc) - 1 and (part == _KEY or schema.models_at(cls, path))
        if last or schema.field_type(cls, (*path, part)) is not None:
            path = (*path, part)
    return path


def _problem(cls: type[BaseModel], path: schema.KeyPath, details: "list[ErrorDetails]") -> str:
    first, key = details[0], path[-1:] == (_KEY,)
    path = path[:-2] if key else path
    name = ".".join(map(str, path))
    if first["type"] in ("extra_forbidden", "invalid_key"):
        return f"{name} {_unknown(cls, path)}"
    if first["type"] == "missing":
        return f"{name} is missing, and has no default"
    if first["type"] in _OWN:
        message = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return f"{name} is wrong: {message}" if name else message
    if key:
        return f"{name} has the key {shown(first['input'])}, allowed: {_one(cls, path, first)}"
    return f"{name or 'the config'} is {shown(first['input'])}, allowed: {allowed(cls, path, details)}"


def _unknown(cls: type[BaseModel], path: schema.KeyPath) -> str:
    *parents, name = path
    known = [field for model in schema.models_at(cls, parents) for field in model.model_fields]
    found = [".".join(map(str, [*parents, near])) for near in nearest(str(name), known)]
    return "is not a field; " + (f"nearest: {', '.join(found)}" if found else f"fields here: {', '.join(known)}")
