"""The clean step: nothing is lost, counts balance, filters come from their files, results do not vary."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import read_json
from argosy.corpus.cleaning import filters
from argosy.corpus.cleaning.filters import FILTERS
from argosy.corpus.data.jsonl import read_documents
from argosy.corpus.data.schemas import Document
from steps.clean import CleanConfig
from steps.score import ScoreConfig
from tests.cleaning_fixtures import cleaned, make_data

GOOD = (
    "The river was low in the summer, and the children of the village walked to the island in the middle of it. "
    "They built a hut of branches and stones that the first flood of the autumn took away.")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = [GOOD, GOOD, f"{GOOD} Write to me@example.com.", "short", f"Menu\n{GOOD}\nAnd then the winter came."]
    documents = [Document(f"web-{number}", text, "web", "en") for number, text in enumerate(texts)]
    return make_data(tmp_path / "data", [*documents, Document("code-0", "x = 1", "code", "en")])


def test_every_document_ends_in_one_place_and_counts_balance(tmp_path: Path, data: Path) -> None:
    outputs, corpus = cleaned(tmp_path, data)
    before = {document.id for document in read_documents(data / "documents")}
    kept = {document.id: document for document in corpus.documents()}
    dropped = {document.id: (name, reason) for document, name, reason in corpus.dropped()}
    assert sorted([*kept, *dropped]) == sorted(before)
    assert dropped["web-1"] == ("exact_dedup", "copy of an earlier document")
    assert kept["code-0"].text == "x = 1"
    assert outputs["documents_in"] == 6 == outputs["documents_out"] + sum(outputs["dropped"].values())
    report = read_json(tmp_path / "clean" / "report.json")
    for counts in report["channels"].values():
        assert counts["in"] == counts["out"] + sum(sum(reasons.values()) for reasons in counts["dropped"].values())
    assert report["channels"]["web"]["dropped"]["gopher_quality"] == {"too short": 1}
    assert {"filter", "reason", "channel", "text"} == set(report["samples"][0])


def test_a_changed_threshold_needs_no_new_scores() -> None:
    def scoring(**thresholds: Any) -> dict[str, Any]:
        config = CleanConfig(filters=[{"name": "gopher_quality", **thresholds}])
        return ScoreConfig(filters=tuple(FILTERS[c.name].scoring_config(c) for c in config.filters)).identity()

    assert scoring(min_words=3, skip_channels=["web"]) == scoring()
    assert scoring(stop_words=["the"]) != scoring()


def test_a_channel_may_lose_everything_and_a_corpus_may_not(tmp_path: Path) -> None:
    short, good = Document("a", "short", "web"), Document("b", GOOD, "books")
    _, corpus = cleaned(tmp_path / "some", make_data(tmp_path / "some" / "data", [short, good]))
    assert corpus.channels() == ["books", "web"]
    assert list(corpus.sizes()) == ["books"]
    with pytest.raises(InputError, match="dropped all 1 documents, most by 'gopher_quality'"):
        cleaned(tmp_path / "none", make_data(tmp_path / "none" / "data", [short]))


def test_word_lists_are_read_and_named_when_unreadable(tmp_path: Path, data: Path) -> None:
    (tmp_path / "words.txt").write_text("branches\n")
    outputs, _ = cleaned(tmp_path, data, word_lists=(str(tmp_path / "words.txt"),))
    assert outputs["dropped"]["toxicity"] == 4
    with pytest.raises(InputError, match=r"word_lists: .*absent.txt cannot be read"):
        cleaned(tmp_path, data, word_lists=(str(tmp_path / "absent.txt"),))


def test_the_filter_of_contributing_is_one_new_file(tmp_path: Path, data: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    contributing = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [source] = [block for block in re.findall(r"```python\n(.*?)```", contributing, re.DOTALL) if "(Filter[" in block]
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "short.py").write_text(source)
    monkeypatch.setattr(filters, "__path__", [*filters.__path__, str(tmp_path / "plugins")])
    filters.FILTERS.forget()
    try:
        outputs, _ = cleaned(tmp_path, data, filters=[{"name": "short", "min_characters": 6}])
    finally:
        filters.FILTERS.forget()
        sys.modules.pop("argosy.corpus.cleaning.filters.short", None)
    assert outputs["dropped"] == {"short": 2}
