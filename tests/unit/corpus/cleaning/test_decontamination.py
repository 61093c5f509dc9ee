"""Benchmark items in documents: planted ones are found, clean books are left alone, and 13-grams are lm-eval's."""

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_json
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters.decontamination import Decontamination, DecontaminationConfig, contaminated
from argosy.corpus.cleaning.report import making
from argosy.corpus.data.jsonl import read_jsonl
from argosy.corpus.data.schemas import Document
from argosy.corpus.text.scripts import simplified
from tests.cleaning_fixtures import CHINESE, PROSE, cleaned, document, make_data, outcome
from tests.shared_data import shared

Item = dict[str, Any]
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_TRADITIONAL = {new: chr(old) for old, new in reversed(simplified().items())}


@pytest.fixture(scope="module")
def items() -> list[Item]:
    found: list[Item] = []
    for path in sorted(shared("mmlu").glob("*_test.csv"))[::3]:
        rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
        found += [{"suite": "mmlu", "question": row[0], "choices": row[1:5]} for row in rows]
    lines = (shared("gsm8k") / "grade_school_math__data__test.jsonl").read_text(encoding="utf-8").splitlines()
    found += [{"suite": "gsm8k", "question": json.loads(line)["question"], "choices": []} for line in lines]
    for path in sorted(shared("gaokao_bench").glob("*MCQs.json")):
        examples = json.loads(path.read_text(encoding="utf-8"))["example"]
        found += [{"suite": "gaokao", "question": each["question"], "choices": []} for each in examples]
    return [item | {"id": f"{item['suite']}:{number}"} for number, item in enumerate(found)]


@pytest.fixture(scope="module")
def found_in(items: list[Item]) -> Callable[[list[str]], list[str]]:
    """Looks texts up: for each the id of the item that it holds, or ""."""
    one = Decontamination(DecontaminationConfig(), Resources(benchmark=items))

    def look(texts: list[str]) -> list[str]:
        found = dict(contaminated(one(Batch([document(text) for text in texts]))[1], items))
        return [found[number]["item"] if number in found else "" for number in range(len(texts))]

    return look


def lightly_edited(text: str, rng: random.Random) -> str:
    """One word of twelve replaced, doubled or left out."""
    words = list(_WORD.finditer(text))
    for match in sorted(rng.sample(words, max(1, len(words) // 12)), key=lambda match: -match.start()):
        new = rng.choice(("", "某" if "\u3400" <= match.group() <= "\u9fff" else "some", match.group() + " 也"))
        text = text[: match.start()] + new + text[match.end() :]
    return text


def _traditional(character: str) -> str:
    return _TRADITIONAL.get(character, character)


def wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "verbatim": lambda text, rng: text, "upper": lambda text, rng: text.upper(), "light": lightly_edited,
    "wide": lambda text, rng: wide(text), "traditional": lambda text, rng: "".join(map(_traditional, text))}


@pytest.mark.parametrize("edit", EDITS)
def test_planted_items_are_found(edit: str, items: list[Item], found_in: Callable[[list[str]], list[str]]) -> None:
    rng = random.Random(4)
    planted = [item for item in rng.sample(items, 600) if len(_WORD.findall(item["question"])) >= 8]
    texts = []
    for item in planted:
        options = rng.sample(item["choices"], len(item["choices"]))  # in another order than they were published in
        lines = "\n".join(f"({letter}) {option}" for letter, option in zip("ABCD", options, strict=False))
        texts.append(f"{PROSE}\n{EDITS[edit](item['question'], rng)}\n{lines}\n{CHINESE}")
    results = found_in(texts)
    assert [item["question"] for item, found in zip(planted, results, strict=True) if not found] == []
    right = sum(item["id"] == found for item, found in zip(planted, results, strict=True))
    assert right >= 0.97 * len(planted)  # others have the same words as the one that is named


def test_clean_books_and_abstracts_are_left_alone(found_in: Callable[[list[str]], list[str]]) -> None:
    texts = [path.read_text(encoding="utf-8") for name in ("zh_d2l", "en_rustbook", "zh_rustbook", "zhen_gowebbook")
             for path in sorted(shared(name).glob("*.md"))]
    texts += (shared("zh_csl") / "benchmark__ts__test.tsv").read_text(encoding="utf-8").splitlines()
    texts += (shared("zh_csl") / "benchmark__cls_ctg__train.tsv").read_text(encoding="utf-8").splitlines()
    flagged = [text for text, found in zip(texts, found_in(texts), strict=True) if found]
    assert len(flagged) < 0.001 * len(texts), flagged


def test_ngrams_are_lm_evals(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no word has a sign within it, which lm-eval takes out and we part words at."""
    from lm_eval.decontamination.janitor import Janitor, word_ngrams

    rng = random.Random(2)
    vocabulary = [f"w{number}" for number in range(40)]
    items = [{"question": " ".join(rng.choices(vocabulary, k=rng.randint(10, 40))), "choices": []} for _ in range(30)]
    texts = []
    for _ in range(300):
        words = rng.choices(vocabulary, k=30)
        quoted = rng.choice(items)["question"].split()
        at, size = rng.randrange(len(quoted)), rng.randint(8, 18)
        texts.append(", ".join([*words[:15], *quoted[at : at + size], *words[15:]]).title())
    janitor = Janitor(ngram_n=13)
    theirs = {gram for item in items for gram in word_ngrams(janitor.normalize_string(item["question"]), 13)}
    flagged = [bool(theirs & set(word_ngrams(janitor.normalize_string(text), 13))) for text in texts]
    one = Decontamination(DecontaminationConfig(similarity=1), Resources(benchmark=items))
    overlap = one(Batch([document(text) for text in texts]))[1]["overlap"]
    assert 20 < sum(flagged) < 280
    assert (overlap > 0).tolist() == flagged


def test_what_is_found_is_named_and_marking_keeps_it() -> None:
    item = {"id": "fr", "suite": "capitals", "question": "The capital of France is",
            "choices": ["Paris", "Lyon", "Nice"]}
    text = "The capital of France is A. Nice B. Lyon C. Paris"
    one = Decontamination(DecontaminationConfig(), Resources(benchmark=[item]))
    _, scores = one(Batch([document(PROSE), document(text)]))
    found = {"suite": "capitals", "item": "fr", "match": "options", "overlap": 1.0}
    assert list(contaminated(scores, [item])) == [(1, found)]
    assert outcome("decontamination", text, resources=Resources(benchmark=[item])) == "dropped: benchmark item"
    assert outcome("decontamination", text, resources=Resources(benchmark=[item]), action="mark") == text


def test_the_clean_step_lists_what_was_found_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "RECORDS", 1)  # a record is looked at at a time
    question = "Who sat on the wall of the old harbour at dawn?"
    item = {"id": "met", "suite": "fishing", "question": question, "choices": []}
    texts = [PROSE, f"{CHINESE}\n{question}", CHINESE]
    data = make_data(tmp_path / "data", [Document(f"web-{at}", text, "web") for at, text in enumerate(texts)])
    chats = [{"messages": [{"role": "user", "content": text}]} for text in texts[:2]]
    for name, rows in (("items", [item]), ("prompts", [{"prompt": chat["messages"]} for chat in chats])):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    outputs, _ = cleaned(tmp_path, data, filters=[{"name": "decontamination", "action": "mark"}])
    what = {"suite": "fishing", "item": "met", "match": "question", "overlap": 1.0}
    assert outputs["documents_out"] == 3
    assert list(read_jsonl(tmp_path / "clean" / "contaminated.jsonl")) == [
        {"document": "web-1", "channel": "web", **what}, {"file": "prompts", "line": 2, **what}]
    report = read_json(tmp_path / "clean" / "report.json")
    assert (report["contaminated"], report["contamination"]) == ({"fishing": {"question": 1}}, {"prompts": 1})


def test_short_questions_without_a_mark_and_options_that_begin_with_numbers_are_found() -> None:
    games = ["2008年北京奥运会的开幕式", "1990年亚运会在北京举行", "2022年冬奥会的闭幕仪式"]
    order, gap, begun = ("Compute the sum of the first ten odd primes.", "中国古代四大发明中最早出现的是____。",
                         "The first president of the United States of America was")
    benchmark = [{"id": text, "question": text, "choices": []} for text in (order, gap, begun)]
    benchmark.append({"id": "games", "question": "下列哪个", "choices": games})
    one = Decontamination(DecontaminationConfig(), Resources(benchmark=benchmark))
    texts = [f"Exercise. {order} It is 158.", f"填空：{gap}", f"{begun} Washington.",
             f"别的题目。{'；'.join(games[::-1])}"]
    found = dict(contaminated(one(Batch([document(text) for text in texts]))[1], benchmark))
    assert {number: (row["item"], row["match"]) for number, row in found.items()} == {
        0: (order, "question"), 1: (gap, "question"), 3: ("games", "options")}


def test_of_several_places_that_are_like_a_question_each_is_judged() -> None:
    benchmark = [{"id": "fr", "question": "The capital of France is", "choices": ["Paris", "Lyon", "Nice"]},
                 {"id": "ru", "question": "俄罗斯的首都是哪座城市？", "choices": []}]
    texts = ["The capital of France is: a quiz for all with maps.\nThe capital of France is A. Nice B. Lyon C. Paris",
             "白俄罗斯的首都是哪座城市？明斯克。俄罗斯的首都是哪座城市？", "白俄罗斯的首都是哪座城市？"]
    one = Decontamination(DecontaminationConfig(), Resources(benchmark=benchmark))
    found = contaminated(one(Batch([document(text) for text in texts]))[1], benchmark)
    assert [(at, row["item"]) for at, row in found] == [(0, "fr"), (1, "ru")]


def test_a_sum_is_not_taken_for_one_with_another_sign_or_number() -> None:
    told = "Please work this out without a calculator and write the"  # up to 13 words, which are looked for with edits
    benchmark = [{"id": "sum", "question": "What is 12 + 4?"}, {"id": "code", "question": "What does i++ do in C?"},
                 {"id": "long", "question": f"{told} result of 12 + 4?"}]
    same = ["What is 12+4 ?", "what is １２ ＋ ４？", "What does i++ do in C?", f"{told} result of <b>12 + 4</b>?",
            f"{told} value of 12 + 4?"]
    others = ["What is 12 - 4?", "What is 12 × 4?", "What does i-- do in C?", f"{told} result of 12 - 4?",
              f"{told} result of 12 + 5?"]
    one = Decontamination(DecontaminationConfig(), Resources(benchmark=benchmark))
    found = contaminated(one(Batch([document(text) for text in [*same, *others]]))[1], benchmark)
    assert [(at, row["item"]) for at, row in found] == list(enumerate(["sum", "sum", "code", "long", "long"]))


def test_a_question_that_items_share_is_no_proof_alone() -> None:
    question = "Which of the following statements about the harbour in the morning is certainly true?"
    options = [["the boats are all in", "the nets are all torn", "nobody is out yet"],
               ["the sea is very calm", "the wind is from east", "the fish is sold out"]]
    benchmark = [{"id": str(number), "question": question, "choices": each} for number, each in enumerate(options)]

    def fate(text: str) -> str:
        return outcome("decontamination", text, resources=Resources(benchmark=benchmark), ngram=20)

    assert fate(question) == question
    assert fate(f"{question} {'; '.join(options[1][::-1])}").startswith("dropped")
    assert fate(f"Tell me. {'. '.join(options[0])}").startswith("dropped")
    assert fate(f"Tell me. {'. '.join(options[0][:2])}").startswith("Tell")
