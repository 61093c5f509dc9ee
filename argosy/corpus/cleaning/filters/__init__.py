"""Filters, one a file: a module here, or in `dedup`, that defines a `Filter` is found by its config's `name`."""

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError

from argosy.core.config.explain import config_error
from argosy.core.plugins import classes, unknown
from argosy.corpus.cleaning import dedup
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Resources
from argosy.corpus.cleaning.recipes import RECIPES
from argosy.corpus.cleaning.scoring import labels


@cache
def registered() -> Mapping[str, type[Filter[Any]]]:
    """Find every filter, by the default of its config's `name`, which is also its module's name."""
    found = {**classes(sys.modules[__name__], "filters", _is_filter), **classes(dedup, "filters", _is_filter)}
    return dict(sorted(found.items()))


def _is_filter(value: type[Any]) -> bool:
    return issubclass(value, Filter)


def parse_filters(value: object) -> object:
    """Turn names of filters and of recipes, {"name": ..., thresholds} and configs into configs; for a pydantic
    before-validator. A name alone is a recipe.

    Raises ValueError: there is no filter of a name, or a threshold is wrong; the nearest name is given."""
    if isinstance(value, str):
        if value not in RECIPES:
            raise ValueError(unknown(value, RECIPES, "recipe") + "; filters are a list: "
                             f"[{value if value in registered() else 'unicode'}]")
        value = [value]
    if not isinstance(value, Sequence):
        return value
    return tuple(_parse(each) for item in value
                 for each in (RECIPES[item] if isinstance(item, str) and item in RECIPES else (item,)))


def _parse(item: object) -> object:
    if isinstance(item, FilterConfig):
        return item
    fields = {"name": item} if isinstance(item, str) else item
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        raise ValueError(f"{item!r} is not a filter: give a name, or an object with `name` and thresholds")
    name = fields["name"]
    if name not in registered():
        raise ValueError(unknown(name, [*registered(), *RECIPES], "filter"))
    try:
        return registered()[name].config_class.model_validate(fields)
    except ValidationError as error:
        raise ValueError(f"filter {name}: {config_error(registered()[name].config_class, error)}") from None


def make_filters(configs: Sequence[FilterConfig], resources: Resources) -> dict[str, Filter[Any]]:
    """Make the filters by label, in the order of their configs."""
    made = {}
    for label, config in zip(labels(configs), configs, strict=True):
        made[label] = registered()[config.name](config, resources)
        made[label].label = label
    return made
