"""Deduplication between steps: parts are cut out of what is read, an index is left, explained and counted."""

from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_json
from argosy.corpus.cleaning import scored
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.cleaning.report.explain import difference, duplicate_of, find
from argosy.corpus.data.schemas import Document
from argosy.evidence.report.cleaning import cleaning_page
from tests.cleaning_fixtures import CHINESE, PROSE, cleaned, make_data

NOTICE = "This notice stands in all of the documents: 版权所有.\n"
TEXTS = {"a": f"{NOTICE}{PROSE}\n", "b": f"{CHINESE}\n{NOTICE}", "c": f"{CHINESE}\n", "d": PROSE.upper()}


def data(root: Path, texts: dict[str, str]) -> Path:
    return make_data(root, [Document(name, text, "web") for name, text in texts.items()])


@pytest.mark.parametrize("shards", [1, 3])
def test_parts_are_cut_and_counted_and_copies_explained(shards: int, tmp_path: Path) -> None:
    filters: Any = ["line_dedup", {"name": "substring_dedup", "length": 40}]
    outputs, corpus = cleaned(tmp_path, data(tmp_path / "data", TEXTS), shards, filters=filters)
    kept = {document.id.rsplit("/")[-1]: document.text for document in corpus.documents()}
    assert list(kept.values()) == [TEXTS["a"], f"{CHINESE}\n"]
    report = read_json(tmp_path / "clean" / "report.json")
    assert report["channels"]["web"]["changed"] == {"line_dedup": 1, "substring_dedup": 1}
    assert outputs["bytes_out"] == sum(len(text.encode()) for text in kept.values())
    assert report["clusters"]["line_dedup"]["sizes"] == {"2": 2}
    largest = report["clusters"]["line_dedup"]["largest"][0]
    assert largest["id"] == duplicate_of(corpus, find(corpus, largest["first"][0]), "line_dedup")


def test_a_document_that_two_filters_cut_to_nothing_goes(tmp_path: Path) -> None:
    lines = [f"Entry {number}: the wind had turned." for number in range(9)]  # too short for substring_dedup
    texts = {"a": "\n".join([*lines[::-1], "The last one."]), "b": f"{PROSE} Another.",
             "c": "\n".join([*lines, PROSE]), "d": "\n".join([*lines[::2], *lines[1::2], " ", ""])}
    filters: Any = [{"name": "line_dedup", "max_share": 0.999}, {"name": "substring_dedup", "length": 80}]
    _, corpus = cleaned(tmp_path, data(tmp_path / "data", texts), filters=filters)
    assert [document.id for document in corpus.documents()] == ["a", "b"]
    assert [(document.id, label) for document, label, _ in corpus.dropped()] == [("c", "substring_dedup"),
                                                                               ("d", "substring_dedup")]
    assert duplicate_of(corpus, find(corpus, "c"), "substring_dedup") == ""


def test_a_corpus_is_cleaned_against_an_earlier_one(tmp_path: Path) -> None:
    filters: Any = ["exact_dedup", {"name": "substring_dedup", "length": 40, "max_share": 1}]
    one = data(tmp_path / "one", {"a": TEXTS["a"], "c": TEXTS["c"]})
    _, first = cleaned(tmp_path / "first", one, 2, filters=filters)
    earlier = (str(tmp_path / "first" / "clean"),)
    two = data(tmp_path / "two", {"x": CHINESE, "y": f"More of it. {PROSE} And more.", "z": "Nothing else."})
    outputs, corpus = cleaned(tmp_path / "second", two, 1, filters=filters, against=earlier)
    assert [document.text for document in corpus.documents()] == ["More of it.  And more.", "Nothing else."]
    assert outputs["dropped"] == {"exact_dedup": 1}
    place = find(corpus, next(document.id for document, *_ in corpus.dropped()))
    names = [document.id for document in first.documents()]
    assert duplicate_of(corpus, place, "exact_dedup") == f"{names[1]} of clean.against[0]"


def test_what_has_dropped_the_document_that_stays_is_told(tmp_path: Path) -> None:
    filters: Any = ["exact_dedup", {"name": "gopher_quality", "min_words": 60}]
    texts = {"a": PROSE, "b": f" {PROSE}\n", "c": f"{PROSE} The boats went out again at noon. {PROSE}"}
    _, corpus = cleaned(tmp_path, data(tmp_path / "data", texts), 2, filters=filters)
    names = {text: document.id for document, *_ in corpus.dropped() if (text := document.text)}
    told = duplicate_of(corpus, find(corpus, names[texts["b"]]), "exact_dedup")
    assert told == f"{names[PROSE]} (then dropped by gopher_quality: too short)"
    page = (tmp_path / "clean" / "report.html").read_text(encoding="utf-8")
    assert f"<b>{names[PROSE]}</b> stays (later dropped by gopher quality), 1 copy goes" in page


def test_neither_blocks_nor_shards_of_any_size_change_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{' '.join(PROSE.split()[: 30 + number])} mail{number}@example.org" for number in range(40)]
    documents = [Document(str(at), text, ("web", "code")[at % 3 == 0]) for at, text in enumerate(texts)]
    filters: Any = [{"name": "pii", "skip_channels": ["code"]}, "language", "exact_dedup",
                    {"name": "gopher_quality", "min_words": 50}]
    tiers: Any = [{"name": "long", "score": "gopher_quality.words", "least": 50}]
    made = []
    for rows, shards in ((2**16, 1), (1, 3)):
        monkeypatch.setattr(scored, "_ROWS", rows)
        root = tmp_path / str(shards)
        cleaned(root, make_data(root / "data", documents), shards, filters=filters, tiers=tiers)
        made.append((root / "clean" / "report.json").read_bytes())
    assert made[0] == made[1]
    report = read_json(root / "clean" / "report.json")
    assert report["found"]["pii"]["email"] == sum(document.channel == "web" for document in documents)
    assert {each["kept"] for each in report["near_misses"]} == {True, False}


def test_a_deduplicator_that_comes_twice_has_an_index_of_its_own_each_time(tmp_path: Path) -> None:
    documents = [Document("a", PROSE, "web"), Document("b", CHINESE, "books")]
    filters: Any = [{"name": "exact_dedup", "skip_channels": ["books"]},
                    {"name": "exact_dedup", "skip_channels": ["web"]}]
    cleaned(tmp_path / "first", make_data(tmp_path / "one", documents), filters=filters)
    again = [*documents, Document("c", PROSE, "books")]  # a copy of what the second one has not looked at
    outputs, _ = cleaned(tmp_path / "second", make_data(tmp_path / "two", again), filters=filters,
                         against=(str(tmp_path / "first" / "clean"),))
    assert outputs["dropped"] == {"exact_dedup": 1, "exact_dedup-2": 1}


def test_what_a_stricter_cleaning_drops_is_the_same_by_places_and_by_ids(tmp_path: Path) -> None:
    texts = {f"{words:02}": " ".join(PROSE.split()[:words]) for words in range(30, 60)}
    made = make_data(tmp_path / "data", [Document(name, text, "web") for name, text in texts.items()])
    loose: Any = [{"name": "gopher_quality", "min_words": 40}, "exact_dedup"]
    strict: Any = [{"name": "gopher_quality", "min_words": 50}, "exact_dedup"]
    one = cleaned(tmp_path / "one", made, 2, filters=loose)[1]
    other = cleaned(tmp_path / "other", made, 3, filters=strict)[1]
    same = KeptCorpus(cleaned(tmp_path / "same", made, 2, filters=strict)[1].clean, one.scored)
    assert difference(other, one, 2) == difference(same, one, 2)
    found = difference(same, one, 2)
    assert found.reasons == {("gopher_quality", "too short"): 10}
    assert [text for *_, text in found.samples] == [texts["40"][:100], texts["41"][:100]]
    assert not difference(one, same, 2).reasons
    elsewhere = cleaned(tmp_path / "elsewhere", make_data(tmp_path / "more", [Document("a", PROSE, "book")]))[1]
    assert difference(elsewhere, one, 2).absent == difference(elsewhere, one, 2).documents == 1


FILTERS: Any = ["language", {"name": "gopher_quality", "min_words": 20, "min_stop_words": 0}, "exact_dedup"]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_nearest_documents_on_both_sides_of_a_threshold_are_shown(
    shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARGOSY_LINE", raising=False)
    words = f"<{PROSE}".split()
    documents = [Document(f"{n}", " ".join(words[:n]), "web") for n in (5, 17, 18, 19, 20, 21, 22, 24, 40)]
    documents += [Document("zh", CHINESE, "web"), Document("book", CHINESE[:60], "books")]
    data = make_data(tmp_path / "data", documents)
    cleaned(tmp_path, data, shards, filters=FILTERS, samples_per_reason=3)
    report = read_json(tmp_path / "clean/report.json")
    near = [row for row in report["near_misses"] if row["score"] == "words" and row["limit"] == 20]
    assert [(row["kept"], row["value"]) for row in near] == [
        (False, 19), (False, 18), (False, 17), (True, 20), (True, 21), (True, 22)]
    assert near[0]["text"] == " ".join(words[:19])
    assert {name: counts["in"] for name, counts in report["languages"]["web"].items()} == {"en": 9, "zh": 1}
    assert report["languages"]["books"] == {"zh": {"in": 1, "out": 1, "bytes_in": 180}}
    page = cleaning_page(report)
    assert page == (tmp_path / "clean/report.html").read_text(encoding="utf-8")
    assert "dropped: words 19, limit 20 (too short)" in page
    assert "&lt;The harbour" in page
    assert "<The" not in page
