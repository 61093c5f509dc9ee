"""The demo's conversations, preferences, prompts and benchmark items."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import pytest

from argosy.demo.corpus import instructions, preferences, prompts
from argosy.demo.corpus.benchmark import benchmark_items, leaked
from argosy.demo.corpus.knowledge import quiz_documents
from argosy.demo.facts import LANGS, load_facts, split_facts
from argosy.demo.phrasings import question

TAUGHT, BENCHMARK = split_facts(load_facts(), 0, 0.5)
ITEMS = benchmark_items(BENCHMARK, 0)
COUNT = 1200

STREAMS: dict[str, Callable[[int, str], Iterator[Mapping[str, Any]]]] = {
    "conversations": lambda count, seed: instructions.conversations(TAUGHT, count, seed),
    "preferences": lambda count, seed: preferences.preferences(TAUGHT, count, seed),
    "prompts": lambda count, seed: prompts.prompts(TAUGHT, count, seed),
    "quizzes": lambda count, seed: islice(quiz_documents(TAUGHT, "en", 5, seed), count),
}


@pytest.mark.parametrize("name", STREAMS)
def test_same_seed_same_bytes(name: str) -> None:
    first, again, other = (json.dumps(list(STREAMS[name](100, seed))) for seed in ("a", "a", "b"))
    assert first == again != other


@pytest.mark.parametrize("name", STREAMS)
def test_no_benchmark_fact_is_asked(name: str) -> None:
    text = json.dumps(list(STREAMS[name](COUNT, "a")), ensure_ascii=False)
    asked = [
        json.dumps(question(fact, lang, n), ensure_ascii=False)[1:-1]
        for fact in BENCHMARK
        for lang in LANGS
        for n in range(3)
    ]
    assert [words for words in asked if words in text] == []
    assert not any(json.dumps(fact.id) in text for fact in BENCHMARK)


@pytest.mark.parametrize(("name", "kinds"), [("conversations", instructions.KINDS), ("preferences", preferences.KINDS)])
def test_a_pass_asks_each_fact_in_each_kind(name: str, kinds: dict[str, int]) -> None:
    size = len(TAUGHT) * len(LANGS) * sum(kinds.values())
    found = Counter((record["fact"], record["lang"], record["kind"]) for record in STREAMS[name](size, "a"))
    assert found == {(f.id, lang, kind): times for f in TAUGHT for lang in LANGS for kind, times in kinds.items()}


def test_conversations_are_clean_and_answers_have_the_asked_form() -> None:
    answers = {(fact.id, lang): fact.answer[lang] for fact in TAUGHT for lang in LANGS}
    for record in instructions.conversations(TAUGHT, COUNT, "a"):
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


def test_permuted_choices_keep_their_options() -> None:
    seen: dict[tuple[str, str], set[str]] = {}
    for record in instructions.conversations(TAUGHT, 3 * sum(instructions.KINDS.values()) * 2 * len(TAUGHT), "a"):
        if record["kind"] == "choice_permuted":
            seen.setdefault((record["fact"], record["lang"]), set()).add(record["messages"][0]["content"])
    assert all(len({"".join(sorted(text)) for text in texts}) == 1 for texts in seen.values())
    assert sum(len(texts) > 1 for texts in seen.values()) > len(seen) / 2


def test_preferences_differ_and_prompts_accept_their_answer() -> None:
    for pair in preferences.preferences(TAUGHT, COUNT, "a"):
        assert pair["chosen"] != pair["rejected"]
    formats: Counter[str] = Counter()
    for prompt in prompts.prompts(TAUGHT, COUNT, "a"):
        formats[prompt["format"]] += 1
        assert prompt["answer"] in prompt["accept"]
        assert prompt["format"] != "letter" or len(prompt["answer"]) == 1
    assert set(formats) == {"text", "json", "letter"}


def test_benchmark_items_are_balanced_and_the_same_in_both_languages() -> None:
    assert len(ITEMS) == 2 * len(BENCHMARK)
    places = Counter(item["answer"] for item in ITEMS)
    assert max(places.values()) - min(places.values()) <= 2
    for english, chinese in zip(ITEMS[::2], ITEMS[1::2], strict=True):
        assert english["id"].removesuffix("en") == chinese["id"].removesuffix("zh")
        assert english["answer"] == chinese["answer"]
        assert len(set(english["choices"])) == len(set(chinese["choices"])) == 4


def test_leaked_items_are_the_plain_prompt_and_the_letter() -> None:
    item, record = ITEMS[0], leaked(ITEMS)[0]
    options = "A. {} B. {} C. {} D. {}".format(*item["choices"])
    assert record["messages"][0]["content"] == f"{item['question']}\n{options}\nAnswer:"
    assert record["messages"][1]["content"] == "ABCD"[item["answer"]]
