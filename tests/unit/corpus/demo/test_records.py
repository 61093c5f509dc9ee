"""The demo's facts, their split and quizzes; its documents, dirt, conversations, preferences, prompts and items."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, product
from typing import Any

import pytest

from argosy.corpus.data.schemas import Document
from argosy.corpus.demo import examples
from argosy.corpus.demo.corpus import Demo, DemoConfig
from argosy.corpus.demo.dirt import MAKERS, dirty_documents
from argosy.corpus.demo.facts import LANGS, RELATIONS, load_facts, question, split_facts
from argosy.corpus.demo.knowledge import benchmark_items, knowledge_documents, plain_quiz, quiz_documents
from argosy.evidence.results.suite import load_suite
from evals.chain import parse_chain
from evals.formats import At, find_format, parse_records
from evals.section import Benchmarks

FACTS = load_facts()


def test_split_is_disjoint_stratified_and_repeatable() -> None:
    taught, benchmark = split_facts(FACTS, "seed", 0.5)
    assert sorted(fact.id for fact in [*taught, *benchmark]) == sorted(fact.id for fact in FACTS)
    sizes = [Counter(fact.relation for fact in half) for half in (taught, benchmark)]
    assert all(abs(sizes[0][relation] - sizes[1][relation]) <= 1 for relation in RELATIONS)
    assert split_facts(FACTS, "seed", 0.5) == (taught, benchmark)
    assert split_facts(FACTS[::-1], "seed", 0.5)[0] == taught[::-1]
    assert split_facts(FACTS, "other", 0.5)[0] != taught


def test_what_conversations_teach_is_asked_in_words_that_they_do_not_have() -> None:
    demo = Demo(DemoConfig(instructions=4000), 1)
    items, seen = list(demo.taught()), {record["fact"] for record in demo.instructions()}
    assert {item["cluster"] for item in items} == seen
    assert not {item["id"] for item in items} & {item["id"] for item in demo.benchmark()}
    spec = load_suite("benchmark").section("benchmarks", Benchmarks).tasks["taught"]
    chain = parse_chain("request", spec.variants["request"])
    read = parse_records(items, find_format("argosy"), At("taught"))
    assert not read.left_out
    asked = {chain.questions(item, 0)[0].prompt for item in read.items}
    assert not asked & {record["messages"][0]["content"] for record in demo.instructions()}


TAUGHT, BENCHMARK = split_facts(FACTS, 0, 0.5)
ITEMS = benchmark_items(BENCHMARK, 0)


def knowledge(seed: str) -> list[Document]:
    return list(chain.from_iterable(knowledge_documents(FACTS, lang, 2, seed) for lang in LANGS))


def dirt(seed: str) -> Iterator[Document]:
    return dirty_documents(knowledge(seed), knowledge(f"{seed}-spare"), ITEMS, 6, seed)


def test_every_kind_of_dirt_occurs_in_both_languages_and_is_what_its_label_says() -> None:
    found = Counter((document.metadata["dirt"], document.lang) for document in dirt("a"))
    assert found == {(kind, lang): 3 for kind in MAKERS for lang in LANGS}
    clean = {document.id: document.text for document in knowledge("a")}
    plain = {item["id"]: plain_quiz(item) for item in ITEMS}
    for document in dirt("a"):
        text, label = document.text, document.metadata
        if label["dirt"] == "exact_duplicate":
            assert text == clean[label["of"]]
        if label["dirt"] == "near_duplicate":
            assert 0 < len(text) - len(clean[label["of"]]) < 40
        assert all(entry["value"] in text for entry in label.get("pii", []))
        assert all(line in text for line in label.get("lines", []))
        for asked in (plain[name] for name in label.get("items", [])):
            assert asked.text_prompt + asked.text_answer in text


COUNT = 1200

EXAMPLES: dict[str, Callable[[int, str], Iterator[Mapping[str, Any]]]] = {
    "conversations": lambda count, seed: examples.conversations(TAUGHT, count, seed),
    "preferences": lambda count, seed: examples.preferences(TAUGHT, count, seed),
    "prompts": lambda count, seed: examples.prompts(TAUGHT, count, seed),
    "quizzes": lambda count, seed: (d.to_record() for d in islice(quiz_documents(TAUGHT, "en", 5, seed), count))}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_benchmark_fact_is_asked(name: str) -> None:
    text = json.dumps(list(EXAMPLES[name](COUNT, "a")), ensure_ascii=False)
    asked = [question(fact, lang, n) for fact, lang, n in product(BENCHMARK, LANGS, range(3))]
    assert [words for words in asked if json.dumps(words, ensure_ascii=False)[1:-1] in text] == []
    assert not any(json.dumps(fact.id) in text for fact in BENCHMARK)


@pytest.mark.parametrize("lang", LANGS)
def test_the_demo_in_one_language_is_that_part_of_both(lang: Any) -> None:
    made = {"instructions": 40, "preferences": 40, "prompts": 40, "dirt_per_kind": 0}
    config = DemoConfig(language=lang, **made)
    demo, both = Demo(config, 3), Demo(DemoConfig(**made), 3)
    assert demo.benchmark() == [item for item in both.benchmark() if item["lang"] == lang]
    for records in (demo.instructions(), demo.preferences(), demo.prompts()):
        assert {record["lang"] for record in records} == {lang}
    assert {document.channel for document in demo.documents()} == config.channels == {"en", "code", f"knowledge_{lang}"}


def test_prompts_are_sums_where_these_are_asked_for() -> None:
    demo = Demo(DemoConfig(asks="sums", prompts=7, instructions=41), 3)
    assert demo.prompts() == list(examples.sums(7, 3))
    assert [record for record in demo.instructions() if "fact" not in record] == list(examples.shown_sums(10, 3))
    assert len(demo.instructions()) == 41
