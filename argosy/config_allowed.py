"""What is allowed where a config has another value, in words: pydantic's own are about types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from argosy.config import Role, role_of
from argosy.config_fields import default_at, is_nullable, models_at
from argosy.yaml_file import KeyPath

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LONGEST = 80  # characters of a value that are shown
_FIELDS = 6  # fields of a mapping that are named
_NUMBER = "a number"
_WHOLE = "a whole number"
_LIST = "a list"
_MAPPING = "a mapping, such as {name: value}"
_KINDS = {
    "int_type": _WHOLE, "int_parsing": _WHOLE, "int_from_float": _WHOLE, "int_parsing_size": "a smaller whole number",
    "float_type": _NUMBER, "float_parsing": _NUMBER, "finite_number": "a finite number",
    "bool_type": "true or false", "bool_parsing": "true or false", "none_required": "null",
    "list_type": _LIST, "tuple_type": _LIST, "set_type": _LIST, "iterable_type": _LIST,
    "dict_type": _MAPPING, "mapping_type": _MAPPING, "string_type": "text",
    "recursion_loop": "a value that does not contain itself",
}  # fmt: skip
_BOUNDS: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "literal_error": lambda c: str(c["expected"]),
    "enum": lambda c: str(c["expected"]),
    "greater_than": lambda c: f"a number above {c['gt']:g}",
    "greater_than_equal": lambda c: f"{c['ge']:g} or more",
    "less_than": lambda c: f"a number below {c['lt']:g}",
    "less_than_equal": lambda c: f"{c['le']:g} or less",
    "multiple_of": lambda c: f"a multiple of {c['multiple_of']}",
    "too_short": lambda c: f"a list of {c['min_length']} or more",
    "too_long": lambda c: f"a list of {c['max_length']} or less",
    "string_too_short": lambda c: f"text of {c['min_length']} characters or more",
    "string_too_long": lambda c: f"text of {c['max_length']} characters or less",
    "string_pattern_mismatch": lambda c: f"text that matches {c['pattern']}",
}
_MODELS = ("model_type", "model_attributes_type")
_EXAMPLE = (_NUMBER, _WHOLE)


def allowed(cls: type[BaseModel], path: KeyPath, details: list[ErrorDetails]) -> str:
    """What may be at `path`; `details` are one for each type of a union."""
    found = list(dict.fromkeys(_one(cls, path, detail) for detail in details))
    if is_nullable(cls, path) and "null" not in found:
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


def _one(cls: type[BaseModel], path: KeyPath, detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind in _MODELS:
        return _fields(cls, path)
    if kind in _BOUNDS:
        return _BOUNDS[kind](detail.get("ctx", {}))
    if _KINDS.get(kind) == _LIST:
        value = detail["input"]
        return f"{_LIST}, such as [{value}]" if isinstance(value, str | int | float) else f"{_LIST}, such as [a, b]"
    text = _KINDS.get(kind) or detail["msg"].removeprefix("Input should be ")
    example = default_at(cls, path) if text in _EXAMPLE else None
    return text if not isinstance(example, int | float) else f"{text}, such as {shown(example)}"


def _fields(cls: type[BaseModel], path: KeyPath) -> str:
    """The fields below `path` that a person sets: the graph fills in the upstream ones."""
    fields = {name: info for model in models_at(cls, path) for name, info in model.model_fields.items()}
    names = [name for name, info in fields.items() if role_of(info) is not Role.UPSTREAM]
    defaults = {name: default_at(cls, (*path, name)) for name in names}
    examples = (f", such as {{{name}: {value}}}" for name, value in defaults.items() if isinstance(value, int | float))
    more = ", ..." if len(names) > _FIELDS else ""
    return f"a mapping of its fields ({', '.join(names[:_FIELDS])}{more}){next(examples, '')}"
