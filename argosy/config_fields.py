"""What a config class says about a dotted path: its type, its default, the names that are allowed there."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined


def field_type(cls: type[BaseModel], path: Sequence[str | int]) -> Any:
    """The annotation at `path`, or None where `path` does not exist. () is `cls` itself."""
    at: Any = cls
    for part in path:
        at = next((found for option in alternatives(at) if (found := _below(option, part)) is not None), None)
        if at is None:
            return None
    return at


def alternatives(annotation: Any) -> Iterator[Any]:
    """The members of `X | Y | None` but None; `annotation` alone where it is no union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from alternatives(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from alternatives(member)
    elif annotation is not type(None):
        yield annotation


def models_at(cls: type[BaseModel], path: Sequence[str | int]) -> list[type[BaseModel]]:
    """The config classes that a value at `path` may be of."""
    return [option for option in alternatives(field_type(cls, path)) if _is_model(option)]


def is_sequence(annotation: Any) -> bool:
    """Whether a value of this annotation is a list, and not also a single value."""
    options = list(alternatives(annotation))
    return bool(options) and all(get_origin(option) in (list, tuple) for option in options)


def item_type(annotation: Any) -> Any:
    """The annotation of an item of a list."""
    return next((found for option in alternatives(annotation) if (found := _below(option, 0)) is not None), None)


def is_text(annotation: Any) -> bool:
    """Whether a value of this annotation is text and nothing else."""
    return list(alternatives(annotation)) == [str]


def is_nullable(cls: type[BaseModel], path: Sequence[str | int]) -> bool:
    """Whether null may be at `path`."""
    annotation = field_type(cls, path)
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def default_at(cls: type[BaseModel], path: Sequence[str | int]) -> Any:
    """The default at `path` as plain data, or None where it has none."""
    *parents, name = path
    for model in models_at(cls, parents):
        if name in model.model_fields:
            default = model.model_fields[str(name)].get_default(call_default_factory=True, validated_data={})
            return None if default is PydanticUndefined else _plain(default)
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _below(annotation: Any, part: str | int) -> Any:
    if _is_model(annotation):
        field = annotation.model_fields.get(part)
        return field.annotation if field else None
    if get_origin(annotation) in (list, tuple, dict, Mapping):
        arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
        return arguments[-1] if arguments else Any
    return None
