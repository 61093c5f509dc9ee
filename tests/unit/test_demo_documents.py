"""The demo's documents: English, code, knowledge and dirt."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from argosy.demo.corpus.benchmark import benchmark_items, plain_quiz
from argosy.demo.corpus.code import code_documents
from argosy.demo.corpus.dirt import DIRT_KINDS, dirty_documents
from argosy.demo.corpus.english import english_documents
from argosy.demo.corpus.knowledge import knowledge_documents, quiz_documents
from argosy.demo.corpus.records import DocumentRecord
from argosy.demo.facts import LANGS, load_facts, split_facts

FACTS = load_facts()
TAUGHT, BENCHMARK = split_facts(FACTS, 0, 0.5)
ITEMS = benchmark_items(BENCHMARK, 0)


def knowledge(seed: str) -> list[DocumentRecord]:
    return list(chain.from_iterable(knowledge_documents(FACTS, lang, 2, seed) for lang in LANGS))


def dirt(seed: str) -> Iterator[DocumentRecord]:
    return dirty_documents(knowledge(seed), knowledge(f"{seed}-spare"), ITEMS, 6, seed)


STREAMS: dict[str, Callable[[str], Iterator[DocumentRecord]]] = {
    "english": lambda seed: english_documents(seed, 30_000),
    "code": lambda seed: code_documents(seed, 30_000),
    "knowledge": lambda seed: iter(knowledge(seed)),
    "quizzes": lambda seed: quiz_documents(TAUGHT, "zh", 1, seed),
    "dirt": dirt,
}


@pytest.mark.parametrize("name", STREAMS)
def test_same_seed_same_bytes_and_well_formed(name: str) -> None:
    first, again, other = (list(STREAMS[name](seed)) for seed in ("a", "a", "b"))
    assert json.dumps(first) == json.dumps(again) != json.dumps(other)
    assert len({document["id"] for document in first}) == len(first) > 10
    for document in first:
        assert set(document) == set(DocumentRecord.__annotations__)
        assert document["text"].strip()
        assert document["channel"] in {"en", "code", "knowledge_en", "knowledge_zh"}
        assert document["lang"] in LANGS
        assert name in {"english", "code"} or not set("{}") & set(document["text"])


@pytest.mark.parametrize("name", ["english", "code"])
def test_standard_library_text_keeps_to_its_bound(name: str) -> None:
    sizes = [len(document["text"].encode()) for document in STREAMS[name]("a")]
    assert 25_000 < sum(sizes) <= 30_000
    assert min(sizes) >= 200


@pytest.mark.parametrize("lang", LANGS)
def test_each_fact_is_stated_as_often_as_asked(lang: str) -> None:
    documents = list(knowledge_documents(FACTS, lang, 3, "a"))
    stated = Counter(chain.from_iterable(document["metadata"]["facts"] for document in documents))
    assert stated == {fact.id: 3 for fact in FACTS}
    by_id = {fact.id: fact for fact in FACTS}
    for document in documents:
        for fact in (by_id[name] for name in document["metadata"]["facts"]):
            assert fact.answer[lang] in document["text"]


def test_quizzes_ask_taught_facts_alone() -> None:
    ids = {fact.id for fact in TAUGHT}
    asked = Counter(chain.from_iterable(document["metadata"]["facts"] for document in STREAMS["quizzes"]("a")))
    assert set(asked) == ids
    assert set(asked.values()) == {1}


def test_every_kind_of_dirt_occurs_in_both_languages() -> None:
    found = Counter((document["metadata"]["dirt"], document["lang"]) for document in dirt("a"))
    assert found == {(kind, lang): 3 for kind in DIRT_KINDS for lang in LANGS}


def test_dirt_is_what_its_label_says() -> None:
    clean = {document["id"]: document["text"] for document in knowledge("a")}
    plain = {item["id"]: plain_quiz(item) for item in ITEMS}
    for document in dirt("a"):
        text, label = document["text"], document["metadata"]
        if label["dirt"] == "exact_duplicate":
            assert text == clean[label["of"]]
        if label["dirt"] == "near_duplicate":
            assert 0 < len(text) - len(clean[label["of"]]) < 40
        assert all(entry["value"] in text for entry in label.get("pii", []))
        assert all(line in text for line in label.get("lines", []))
        for quiz in (plain[name] for name in label.get("items", [])):
            assert quiz.text_prompt + quiz.text_answer in text
