"""The clean step: nothing is lost, counts balance, filters come from their files, results do not vary."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from argosy.cleaning import filters
from argosy.data.jsonl import JsonlWriters, read_documents, read_jsonl
from argosy.data.schemas import Document
from argosy.errors import InputError
from argosy.store.files import read_json, write_json
from steps.clean import STEP, CleanConfig
from tests.step_fixtures import run_step

GOOD = (
    "The river was low in the summer, and the children of the village walked to the island in the middle of it. "
    "They built a hut of branches and stones that the first flood of the autumn took away."
)


def make_data(root: Path, documents: list[Document]) -> str:
    with JsonlWriters(root) as writers:
        for document in documents:
            writers.write(f"documents/{document.channel}", document.to_record())
        writers.open("benchmark/en")
    write_json(root / "outputs.json", {"outputs": {"documents": len(documents)}})
    return str(root)


def clean(out: Path, **config: Any) -> dict[str, Any]:
    return run_step(STEP, CleanConfig(**config), out)


@pytest.fixture
def data(tmp_path: Path) -> str:
    texts = [GOOD, GOOD, f"{GOOD} Write to me@example.com.", "short", f"Menu\n{GOOD}\nAnd then the winter came."]
    documents = [Document(f"web-{number}", text, "web", "en") for number, text in enumerate(texts)]
    return make_data(tmp_path / "data", [*documents, Document("code-0", "x = 1", "code", "en")])


def test_every_document_ends_in_one_place_and_counts_balance(tmp_path: Path, data: str) -> None:
    outputs = clean(tmp_path / "out", data=data)
    before = {document.id: document for document in read_documents(Path(data) / "documents")}
    kept = {document.id: document for document in read_documents(tmp_path / "out" / "documents")}
    rejects = [record for path in (tmp_path / "out" / "rejects").glob("*.jsonl") for record in read_jsonl(path)]
    assert sorted([*kept, *(record["id"] for record in rejects)]) == sorted(before)
    assert all(record["text"] == before[record["id"]].text for record in rejects)
    assert {record["id"]: record["filter"] for record in rejects}["web-1"] == "exact_dedup"
    assert kept["code-0"].text == "x = 1"
    assert outputs["documents_in"] == 6 == outputs["documents_out"] + sum(outputs["dropped"].values())
    report = read_json(tmp_path / "out" / "report.json")
    for counts in report["channels"].values():
        assert counts["in"] == counts["out"] + sum(sum(reasons.values()) for reasons in counts["dropped"].values())
    assert report["channels"]["web"]["dropped"]["gopher_quality"] == {"too short": 1}
    assert {"filter", "reason", "channel", "text"} == set(report["samples"][0])


def test_a_channel_may_lose_everything_and_a_corpus_may_not(tmp_path: Path) -> None:
    short, good = Document("a", "short", "web"), Document("b", GOOD, "books")
    clean(tmp_path / "out", data=make_data(tmp_path / "some", [short, good]))
    assert (tmp_path / "out" / "documents" / "web.jsonl").read_bytes() == b""
    with pytest.raises(InputError, match="dropped all 1 documents, most by 'gopher_quality'"):
        clean(tmp_path / "none", data=make_data(tmp_path / "data", [short]))


def test_word_lists_are_read_and_named_when_unreadable(tmp_path: Path, data: str) -> None:
    (tmp_path / "words.txt").write_text("branches\n")
    outputs = clean(tmp_path / "out", data=data, word_lists=(str(tmp_path / "words.txt"),))
    assert outputs["dropped"]["toxicity"] == 4
    with pytest.raises(InputError, match=r"word_lists: .*absent.txt cannot be read"):
        clean(tmp_path / "other", data=data, word_lists=(str(tmp_path / "absent.txt"),))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["near_dedupe"], "unknown filter 'near_dedupe'; did you mean 'near_dedup'"),
        ([{"name": "toxicity", "min_wieght": 3}], "min_wieght"),
        ([{"name": "near_dedup", "similarity": 1.5}], "filter near_dedup: similarity is 1.5, allowed: 1 or less"),
        ([7], "7 is not a filter"),
    ],
)
def test_wrong_filters_are_named(given: list[Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CleanConfig(filters=given)


def test_thresholds_are_in_the_identity_and_survive_json() -> None:
    config = CleanConfig(filters=["unicode", {"name": "near_dedup", "similarity": 0.9}])
    again = CleanConfig.model_validate_json(config.model_dump_json())
    assert (again, again.identity()) == (config, config.identity())
    assert config.identity()["filters"][1]["similarity"] == 0.9
    assert config.identity() != CleanConfig(filters=["unicode", "near_dedup"]).identity()


def test_the_filter_of_contributing_is_one_new_file(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    contributing = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [source] = [block for block in re.findall(r"```python\n(.*?)```", contributing, re.DOTALL) if "(Filter[" in block]
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "short.py").write_text(source)
    monkeypatch.setattr(filters, "__path__", [*filters.__path__, str(tmp_path / "plugins")])
    filters.registered.cache_clear()
    try:
        outputs = clean(tmp_path / "out", data=data, filters=[{"name": "short", "min_characters": 6}])
    finally:
        filters.registered.cache_clear()
        sys.modules.pop("argosy.cleaning.filters.short", None)
    assert outputs["dropped"] == {"short": 2}
