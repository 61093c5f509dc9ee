"""Find the filters (each module of `argosy.cleaning.filters`) and read a list of them from a config."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from typing import Any

from argosy.cleaning import filters
from argosy.cleaning.filter import Filter, FilterConfig, Resources


@functools.cache
def registry() -> dict[str, type[Filter[Any]]]:
    """Filter classes by the default of their config's `name`, which is also the module's name."""
    found: dict[str, type[Filter[Any]]] = {}
    for info in pkgutil.iter_modules(filters.__path__):
        module = importlib.import_module(f"{filters.__name__}.{info.name}")
        for _, item in inspect.getmembers(module, inspect.isclass):
            if issubclass(item, Filter) and item.__module__ == module.__name__:
                found[item.config_class.model_fields["name"].default] = item
    return dict(sorted(found.items()))


def parse_filters(value: object) -> object:
    """Names, {"name": ..., thresholds} or configs -> configs; for a pydantic before-validator.

    Raises:
        ValueError: a name is unknown; says which is nearest.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    return tuple(_parse(item) for item in value)


def _parse(item: object) -> object:
    if isinstance(item, FilterConfig):
        return item
    fields = {"name": item} if isinstance(item, str) else item
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        raise ValueError(f"{item!r} is not a filter: give a name, or an object with `name` and thresholds")
    name = fields["name"]
    if name not in registry():
        near = difflib.get_close_matches(name, registry(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown filter {name!r}{hint} (there are: {', '.join(registry())})")
    return registry()[name].config_class.model_validate(fields)


def make_filters(configs: Sequence[FilterConfig], resources: Resources) -> list[Filter[Any]]:
    """Filters in the order of their configs."""
    return [registry()[config.name](config, resources) for config in configs]
