"""Filters: a module here, one a file, or in `dedup`, that defines a `Filter` is found by its config's `name`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError

from argosy.core.config.explain import config_error
from argosy.core.plugins import Folder, unknown
from argosy.corpus.cleaning import dedup
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Resources
from argosy.corpus.cleaning.scoring import labels

FILTERS: Folder[type[Filter[Any]]] = Folder("filter", Filter, __name__, dedup.__name__)
RECIPES: dict[str, list[str | dict[str, Any]]] = yaml.safe_load(
    Path(__file__).parent.with_name("recipes.yaml").read_text(encoding="utf-8"))  # fmt: skip


def parse_filters(value: object) -> object:
    """Turn names of filters and of recipes, {"name": ..., thresholds} and configs into configs; for a pydantic
    before-validator. A name alone is a recipe.

    Raises ValueError: there is no filter of a name, or a threshold is wrong; the nearest name is given."""
    if isinstance(value, str):
        if value not in RECIPES:
            raise ValueError(unknown(value, RECIPES, "recipe") + "; filters are a list: "
                             f"[{value if value in FILTERS else 'unicode'}]")
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
    if name not in FILTERS:
        raise ValueError(unknown(name, [*FILTERS, *RECIPES], "filter"))
    try:
        return FILTERS[name].config_class.model_validate(fields)
    except ValidationError as error:
        raise ValueError(f"filter {name}: {config_error(FILTERS[name].config_class, error)}") from None


Filters = Annotated[tuple[SerializeAsAny[FilterConfig], ...], BeforeValidator(parse_filters),
                    Field(validate_default=True)]
"""Configs of filters, as a field of a step's config."""


def make_filters(configs: Sequence[FilterConfig], resources: Resources) -> dict[str, Filter[Any]]:
    """Make the filters by label, in the order of their configs."""
    made = {}
    for label, config in zip(labels(configs), configs, strict=True):
        made[label] = FILTERS[config.name](config, resources)
        made[label].label = label
    return made
