"""Channels by quality: documents within limits of a score come out as a channel of their own."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import read_json
from argosy.corpus.cleaning.report.explain import find
from argosy.corpus.cleaning.tiers import tier_channels
from argosy.corpus.data.schemas import Document
from steps.clean import CleanConfig
from tests.cleaning_fixtures import CHINESE, PROSE, cleaned, make_data
from tests.graphs import digests, nodes
from workflows.plan import check_inputs

NOTICE = "This notice stands in all of the documents.\n"
TEXTS = {"a": PROSE, "b": f"{PROSE.upper()} {PROSE}", "c": CHINESE, "d": "A short one."}
FILTERS: Any = [{"name": "gopher_quality", "min_words": 3, "min_stop_words": 0}, "line_dedup"]
TIERS: Any = [{"name": "long", "score": "gopher_quality.words", "least": 80, "channels": ["web"]},
              {"name": "some", "score": "gopher_quality.words", "least": 50}]


def test_documents_move_to_channels_whose_sizes_are_theirs(tmp_path: Path) -> None:
    documents = [Document(f"{channel}{name}", f"{NOTICE}{channel} {name}: {text}", channel)
                 for channel in ("web", "book") for name, text in TEXTS.items()]
    data = make_data(tmp_path / "data", documents)
    outputs, corpus = cleaned(tmp_path / "one", data, 1, filters=FILTERS, tiers=TIERS)
    found = [(document.id, document.channel, document.text) for document in corpus.documents()]
    channels = {channel for _, channel, _ in found}
    assert channels == {"book", "book.some", "web", "web.long", "web.some"}
    sizes = Counter[str]()
    for _, channel, text in found:
        sizes[channel] += len(text.encode())
    assert corpus.sizes() == sizes
    assert set(corpus.channels()) == channels
    assert sum(sizes.values()) == outputs["bytes_out"]
    report = read_json(tmp_path / "one/clean/report.json")
    assert set(report["channels"]) == {"book", "web"}
    assert report["tiers"]["web.long"]["of"] == "web"
    place = find(corpus, next(name for name, channel, _ in found if channel == "web.long"))
    assert corpus.tier(place.shard, place.row, "web") == "web.long"
    again = cleaned(tmp_path / "three", data, 3, filters=FILTERS, tiers=TIERS)[1]
    assert [(d.id, d.channel, d.text) for d in again.documents()] == found
    codes = [np.load(path) for path in sorted((again.clean / "decisions").glob("*.tiers.npy"))]
    assert np.array_equal(np.concatenate(codes), np.load(corpus.clean / "decisions/00000.tiers.npy"))


@pytest.mark.parametrize(("tier", "words"), [
    ({"score": "gopher_quality.word"}, "nearest: gopher_quality.words"),
    ({"channels": ["wbe"]}, "no such channel with documents; there are: web")])
def test_a_score_or_a_channel_that_is_not_there_is_named(tier: Any, words: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", [Document("a", PROSE, "web")])
    tiers: Any = [{"name": "best", "score": "gopher_quality.words", "least": 1, **tier}]
    with pytest.raises(InputError, match=words):
        cleaned(tmp_path, data, filters=FILTERS, tiers=tiers)


@pytest.mark.parametrize(("tiers", "words"), [
    ([{"name": "best", "score": "gopher.words", "least": 1}], "no filter 'gopher'"),
    ([{"name": "best", "score": "gopher_quality.words"}], "set one"),
    ([{"name": "best", "score": "gopher_quality.words", "least": 2, "most": 1}], "no document"),
    ([{"name": "best", "score": "gopher_quality.words", "least": 1}] * 2, "there before")])
def test_tiers_that_cannot_be_are_refused(tiers: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CleanConfig(tiers=tiers)


def test_a_tier_would_make_a_channel_that_is_there() -> None:
    tiers: Any = [{"name": "best", "score": "gopher_quality.words", "least": 1}]
    with pytest.raises(InputError, match=r"web\.best', and documents have it already"):
        tier_channels(CleanConfig(tiers=tiers).tiers, {"web", "web.best"})


def test_a_threshold_decides_alone_and_mixtures_may_name_the_channel(tmp_path: Path) -> None:
    def overrides(least: float, channel: str = "en.best") -> list[str]:
        tier = f'{{"name": "best", "score": "gopher_quality.words", "least": {least}, "channels": ["en"]}}'
        return [f'anneal.mixture={{"{channel}": 1, "other": 1}}', f"clean.tiers=[{tier}]"]

    first, second = (digests(*overrides(least)) for least in (80, 90))
    assert first["score/00000"] == second["score/00000"]
    assert first["clean"] != second["clean"]
    check_inputs([*nodes(*overrides(80)).values()], {"anneal"})
    with pytest.raises(InputError, match=r"anneal.mixture.code.best: no such channel"):
        check_inputs([*nodes(*overrides(80, "code.best")).values()], {"anneal"})
