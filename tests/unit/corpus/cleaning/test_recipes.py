"""Recipes: each is a list of filters that there are, and FineWeb's rules of C4 are datatrove's."""

import pytest
from pydantic import ValidationError

from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import make_filters
from argosy.corpus.cleaning.recipes import RECIPES
from argosy.corpus.cleaning.scoring import labels
from steps.clean import CleanConfig


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_its_filters_alone_or_in_a_list(name: str) -> None:
    config = CleanConfig.model_validate({"filters": name})
    assert labels(config.filters) == [each if isinstance(each, str) else each["name"] for each in RECIPES[name]]
    longer = CleanConfig.model_validate({"filters": [name, {"name": "line_dedup", "min_documents": 9}]})
    assert longer.filters[:-1] == config.filters
    assert len(make_filters(config.filters, Resources())) == len(config.filters)


def test_an_unknown_recipe_is_named_with_those_there_are() -> None:
    with pytest.raises(ValidationError, match=r"unknown recipe 'finweb'; did you mean 'fineweb'\?"):
        CleanConfig.model_validate({"filters": "finweb"})
    with pytest.raises(ValidationError, match=r"filters are a list: \[pii\]"):
        CleanConfig.model_validate({"filters": "pii"})
