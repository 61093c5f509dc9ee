"""The demo's facts, their split and quizzes; its documents, dirt, conversations, preferences, prompts and items."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, product
from random import Random
from typing import Any

import pytest

from argosy.corpus.data.schemas import Document
from argosy.corpus.demo import examples
from argosy.corpus.demo.corpus import Demo, DemoConfig
from argosy.corpus.demo.dirt import DIRT_KINDS, dirty_documents
from argosy.corpus.demo.facts import LABELS, LANGS, LAYOUTS, RELATIONS, load_facts, question, quiz, split_facts
from argosy.corpus.demo.knowledge import benchmark_items, knowledge_documents, plain_quiz, quiz_documents
from argosy.evidence.results.suite import load_suite
from evals.chain import parse_chain
from evals.formats import At, find_format, parse_records
from evals.section import Benchmarks

FACTS = load_facts()


@pytest.mark.parametrize("lang", LANGS)
def test_facts_are_enough_unique_and_clean(lang: str) -> None:
    sizes = Counter(fact.relation for fact in FACTS)
    assert tuple(sizes) == RELATIONS
    assert min(sizes.values()) >= 24
    assert len({fact.id for fact in FACTS}) == len(FACTS) >= 280
    for key in ("subject", "answer"):
        values = [(fact.relation, getattr(fact, key)[lang]) for fact in FACTS]
        assert max(Counter(values).values()) == 1
        assert all(text == text.strip() and text for _, text in values)
    assert [fact.id for fact in FACTS if fact.answer[lang] in fact.subject[lang]] == []
    assert not {fact.answer[lang] for fact in FACTS} & set("ABCD1234一二三四甲乙丙丁")
    for fact in FACTS:
        assert (fact.answer["en"] == fact.answer["zh"]) == (fact.relation == "symbol"), fact.id
        assert fact.subject[lang].isascii() == (lang == "en"), fact.id


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


@pytest.mark.parametrize(("lang", "labels"), list(product(LANGS, LABELS)))
def test_every_form_shows_each_option_once_and_answers_rightly(lang: str, labels: str) -> None:
    none = {"en": "None of the others", "zh": "其他答案全错"}[lang]
    for fact, layout in product(FACTS[::29], LAYOUTS):
        form = quiz(fact, lang, FACTS, Random(layout), labels, layout)
        offered = quiz(fact, lang, FACTS, Random(1), labels, layout, none_option=True)
        dropped = quiz(fact, lang, FACTS, Random(1), labels, layout, drop_right=True)
        for each, right in ((form, fact.answer[lang]), (offered, fact.answer[lang]), (dropped, none)):
            assert (len(set(each.options)), each.options[each.answer_index]) == (4, right)
            body = each.text_prompt.removeprefix(each.question)
            assert all(option in body for option in each.options)
            assert each.text_answer.strip() == (right if labels == "none" else each.labels[each.answer_index])
        assert dropped.options[3] == offered.options[3] == none
        assert fact.answer[lang] not in dropped.options


TAUGHT, BENCHMARK = split_facts(FACTS, 0, 0.5)
ITEMS = benchmark_items(BENCHMARK, 0)


def knowledge(seed: str) -> list[Document]:
    return list(chain.from_iterable(knowledge_documents(FACTS, lang, 2, seed) for lang in LANGS))


def dirt(seed: str) -> Iterator[Document]:
    return dirty_documents(knowledge(seed), knowledge(f"{seed}-spare"), ITEMS, 6, seed)


@pytest.mark.parametrize("lang", LANGS)
def test_each_fact_is_stated_as_often_as_asked(lang: str) -> None:
    documents = list(knowledge_documents(FACTS, lang, 3, "a"))
    stated = Counter(chain.from_iterable(document.metadata["facts"] for document in documents))
    assert stated == {fact.id: 3 for fact in FACTS}
    by_id = {fact.id: fact for fact in FACTS}
    for document in documents:
        for fact in (by_id[name] for name in document.metadata["facts"]):
            assert fact.answer[lang] in document.text


def test_every_kind_of_dirt_occurs_in_both_languages_and_is_what_its_label_says() -> None:
    found = Counter((document.metadata["dirt"], document.lang) for document in dirt("a"))
    assert found == {(kind, lang): 3 for kind in DIRT_KINDS for lang in LANGS}
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
    "quizzes": lambda count, seed: (d.to_record() for d in islice(quiz_documents(TAUGHT, "en", 5, seed), count)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_benchmark_fact_is_asked(name: str) -> None:
    text = json.dumps(list(EXAMPLES[name](COUNT, "a")), ensure_ascii=False)
    asked = [question(fact, lang, n) for fact, lang, n in product(BENCHMARK, LANGS, range(3))]
    assert [words for words in asked if json.dumps(words, ensure_ascii=False)[1:-1] in text] == []
    assert not any(json.dumps(fact.id) in text for fact in BENCHMARK)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("conversations", examples.INSTRUCTION_KINDS), ("preferences", examples.PREFERENCE_KINDS)],
)
def test_a_pass_asks_each_fact_in_each_kind(name: str, kinds: dict[str, int]) -> None:
    size = len(TAUGHT) * len(LANGS) * sum(kinds.values())
    found = Counter((record["fact"], record["lang"], record["kind"]) for record in EXAMPLES[name](size, "a"))
    assert found == {(f.id, lang, kind): times for f in TAUGHT for lang in LANGS for kind, times in kinds.items()}


def test_conversations_are_clean_and_answers_have_the_asked_form() -> None:
    answers = {(fact.id, lang): fact.answer[lang] for fact in TAUGHT for lang in LANGS}
    permuted: dict[tuple[str, str], set[str]] = {}
    for record in examples.conversations(TAUGHT, 2 * COUNT, "a"):
        asked, replied = (message["content"] for message in record["messages"])
        answer = answers[record["fact"], record["lang"]]
        assert [message["role"] for message in record["messages"]] == ["user", "assistant"]
        assert replied == replied.strip() != ""
        assert "{" not in asked
        if record["kind"] == "json":
            assert json.loads(replied) == {"answer": answer}
        elif record["kind"] in {"short_answer", "brief_answer"}:
            assert answer in replied
        elif record["kind"] == "copy":
            assert asked.endswith(replied)
        elif record["kind"] == "choice_permuted":
            permuted.setdefault((record["fact"], record["lang"]), set()).add("".join(sorted(asked)))
    assert all(len(forms) == 1 for forms in permuted.values())  # the same options in another order


def test_benchmark_items_are_balanced_and_the_same_in_both_languages() -> None:
    assert len(ITEMS) == 2 * len(BENCHMARK)
    places = Counter(item["answer"] for item in ITEMS)
    assert max(places.values()) - min(places.values()) <= 2
    for english, chinese in zip(ITEMS[::2], ITEMS[1::2], strict=True):
        assert english["id"].removesuffix("en") == chinese["id"].removesuffix("zh")
        assert english["answer"] == chinese["answer"]
        assert len(set(english["choices"])) == len(set(chinese["choices"])) == 4


def test_sums_are_right_and_those_that_are_shown_are_smaller() -> None:
    asked = [(record["lang"], record["prompt"][0]["content"], record["accept"][0], record["answer"])
             for record in examples.sums(420, "a")]
    shown = [(record["lang"], *(message["content"] for message in record["messages"]), "")
             for record in examples.shown_sums(252, "a")]
    for made, numbers, pairs in ((asked, range(20, 40), 210), (shown, range(1, 20), 63)):
        found = Counter()
        for lang, request, reply, answer in made:
            first, second = map(int, re.findall(r"\d+", request))
            assert reply == f"{first} + {second} = {first + second}"
            assert answer in ("", str(first + second))
            assert {first, second} <= {*numbers}
            found[lang, min(first, second), max(first, second)] += 1
        assert len(found) == pairs * len(LANGS)  # in one order each
        assert set(found.values()) == {len(made) // len(found)}
        texts = {request for _, request, *_ in made}
        assert len(texts) == len(found)
    orders = {tuple(map(int, re.findall(r"\d+", request))) for _, request, *_ in asked}
    assert {first > second for first, second in orders} == {True, False}


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
