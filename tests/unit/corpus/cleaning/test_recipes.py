"""Recipes: each is a list of filters that there are, and FineWeb's rules of C4 are datatrove's."""

import numpy as np
import pytest
from pydantic import ValidationError

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import make_filters, parse_filters
from argosy.corpus.cleaning.recipes import RECIPES
from argosy.corpus.cleaning.scoring import KEPT, decide, labels, score
from argosy.corpus.data.schemas import Document
from benchmarks.datatrove_peer import documents, real_texts, splitting
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


def test_lines_of_fineweb_may_end_in_anything_as_in_datatrove() -> None:
    peers = pytest.importorskip("datatrove.pipeline.filters.c4_filters")
    texts = [text for text in dict.fromkeys(real_texts()) if text.isascii()][:300]
    if not texts:
        pytest.skip("no test data beside the checkout")
    batch = Batch([Document(str(number), text, "web") for number, text in enumerate(texts)])
    configs = [each for each in RECIPES["fineweb"] if isinstance(each, dict) and each["name"] == "c4_quality"]
    filters = make_filters(parse_filters(configs), Resources())  # type: ignore[arg-type]
    scored = score(batch, filters)
    codes, _ = decide(filters, scored.scores, np.full(len(batch), "web"))
    ours = {number: text for number, (text, code) in enumerate(zip(scored.batch.texts, codes, strict=True))
            if code == KEPT}
    with splitting():
        kept = peers.C4QualityFilter(filter_no_terminal_punct=False).run(documents(texts))
        theirs = {int(document.id): document.text for document in kept}
    assert ours == theirs
    assert 50 < len(ours) < len(texts)
