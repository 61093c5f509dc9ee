"""Filters of content: personal data, insults, benchmark items, copies; what each must catch and leave alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from argosy.cleaning.contamination import contamination
from argosy.cleaning.filter import Drop, Resources
from argosy.cleaning.filters.pii import valid_card, valid_resident_id
from argosy.cleaning.text import words
from argosy.documents import Document, JsonlWriters
from tests.cleaning_fixtures import CHINESE, PROSE, document, make, outcome


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to jane.doe+news@mail.example.co.uk, please.", "Write to <EMAIL>, please."),
        ("联系邮箱zhang_san@example.com。", "联系邮箱<EMAIL>。"),
        ("电话13812345678，或+86 138-1234-5678。", "电话<PHONE>，或<PHONE>。"),
        ("座机010-62345678", "座机<PHONE>"),
        ("Call (212) 555-0199 or +44 20 7946 0958.", "Call <PHONE> or <PHONE>."),
        ("身份证号11010519491231002X。", "身份证号<RESIDENT_ID>。"),
        ("SSN 123-45-6789.", "SSN <SSN>."),
        ("card 4111 1111 1111 1111, thanks", "card <CARD>, thanks"),
        ("from 8.8.8.8 at noon", "from <IP> at noon"),
    ],
)
def test_personal_data_is_replaced_and_counted(text: str, expected: str) -> None:
    one = make("pii")
    result = one(document(text))
    assert isinstance(result, Document)
    assert result.text == expected
    assert one.counts.total() == expected.count("<")


@pytest.mark.parametrize(
    "text",
    [
        "身份证号110105194912310021。",  # wrong check digit
        "4111 1111 1111 1112",  # fails Luhn
        "localhost is 127.0.0.1, the router 192.168.0.1, version 10.4.2.1",
        "pi is 3.14159265358979 and e is 2.718281828459045",
        "2024-01-15 12:30:45, pages 123-456, 1,234,567.89, ISBN 978-7-111-12345-6",
        "@decorator def f(self): return a@b",
        "12345678901234567890123",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert outcome("pii", text) == text


def test_check_digits() -> None:
    assert valid_resident_id("11010519491231002X")  # the example of GB 11643
    assert [d for d in "0123456789X" if valid_resident_id("11010519491231002" + d)] == ["X"]
    assert valid_card("4242 4242 4242 4242")
    assert not valid_card("4242 4242 4242 4241")


def test_toxicity_looks_at_whole_words_and_at_how_many() -> None:
    assert outcome("toxicity", f"{PROSE} You bastards, you idiots!") == "dropped: insults"
    assert outcome("toxicity", f"{CHINESE}滚开，你这个笨蛋。") == "dropped: insults"
    for text in ("Scunthorpe and Arsenal, an assassin in the classics", "The idiot is a novel.", "垃圾分类从我做起。"):
        assert outcome("toxicity", text) == text
    long = PROSE * 40
    assert outcome("toxicity", f"{long} Shit, said the idiot.") == f"{long} Shit, said the idiot."
    assert outcome("toxicity", "a grommet here", resources=Resources(words=["grommet"])) == "dropped: insults"


ITEMS = [
    {"question": "Who painted the Mona Lisa?", "choices": ["Leonardo da Vinci", "Raphael", "Titian", "Giotto"]},
    {"question": "法国的首都是哪座城市？", "choices": ["巴黎", "里昂", "马赛", "尼斯"]},
    {"question": "The capital of France is", "choices": ["Paris", "Lyon", "Nice", "Lille"]},
    {
        "question": "A train leaves the station at nine with forty passengers and at each of its three stops ten get "
        "off and five get on; how many arrive?",
        "choices": ["25", "30", "35", "40"],
    },
]


@pytest.mark.parametrize(
    "text",
    [
        "Pub quiz!\nWho painted the Mona Lisa?\nA. Leonardo da Vinci B. Raphael",
        "WHO PAINTED THE «MONA LISA»?",
        "Question: Who painted the Mona Lisa\n(a) Leonardo da Vinci (b) Raphael (c) Titian (d) Giotto",
        "题库：法国的首都是哪座城市？答案：巴黎",
        "地理。法国的首都是哪座城市？",
        "猜谜\n法国的首都是哪座城市？",
        "请问法国的首都是哪座城市？",
        "The capital of France is A. Paris B. Lyon C. Nice D. Lille Answer: A",
        "He asked: at each of its three stops ten get off and five get on; how many arrive? Nobody knew.",
    ],
)
def test_benchmark_items_are_dropped(text: str) -> None:
    assert outcome("decontamination", text, resources=Resources(benchmark=ITEMS)) == "dropped: benchmark item"


@pytest.mark.parametrize(
    "text",
    [
        "The artist who painted the Mona Lisa is Leonardo da Vinci, as Raphael knew.",
        "The capital of France is Paris, the largest city of the country; the second is Lyon.",
        "白法国的首都是哪座城市？",
        "老白法国的首都是哪座城市 A. 巴黎 B. 里昂 C. 马赛 D. 尼斯",
        "法国的首都是巴黎，法国的首都是哪座城市的姐妹城市并不重要。",
        "A train leaves the station at nine with forty passengers.",
    ],
)
def test_prose_with_the_same_fact_stays(text: str) -> None:
    assert outcome("decontamination", text, resources=Resources(benchmark=ITEMS)) == text


def test_exact_copies_differ_at_most_in_case_width_and_punctuation() -> None:
    one = make("exact_dedup")
    assert isinstance(one(document(PROSE)), Document)
    assert isinstance(one(document(PROSE.upper().replace(",", " ，") + "\n")), Drop)
    assert isinstance(one(document(PROSE + " And more.")), Document)
    assert [isinstance(one(document(text)), Drop) for text in ("***", "+++", "***")] == [False, False, True]


def test_signatures_estimate_the_jaccard_index() -> None:
    import numpy as np

    from argosy.cleaning.filters.near_dedup import NearDedup, NearDedupConfig, shingle_hashes

    one = NearDedup(NearDedupConfig(bands=64, rows=8), Resources())
    rng = random.Random(3)
    vocabulary = [f"word{number}" for number in range(5000)]
    for changed in (0, 5, 20, 60, 200):
        tokens = rng.choices(vocabulary, k=400)
        other = list(tokens)
        for place in rng.sample(range(400), changed):
            other[place] = rng.choice(vocabulary)
        grams = [{tuple(t[i : i + 5]) for i in range(len(t) - 4)} for t in (tokens, other)]
        exact = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
        a, b = (shingle_hashes(" ".join(t), 5) for t in (tokens, other))
        assert len(np.intersect1d(a, b)) / len(np.union1d(a, b)) == pytest.approx(exact)
        estimate = (one.signature(a) == one.signature(b)).mean()
        assert abs(estimate - exact) < 4 * (exact * (1 - exact) / 512) ** 0.5 + 1e-9


def test_near_copies_go_and_the_first_stays() -> None:
    rng = random.Random(5)
    long = " ".join(rng.choices(words(PROSE), k=300))
    edited = long.split()
    edited[100] = "really"
    one = make("near_dedup")
    assert isinstance(one(document(long)), Document)
    assert isinstance(one(document(" ".join(edited))), Drop)
    assert isinstance(one(document(" ".join(rng.choices(words(PROSE), k=300)))), Document)
    assert isinstance(one(document("too short")), Document)
    assert isinstance(one(document("too short")), Document)


def test_records_for_posttraining_with_a_benchmark_item_are_counted(tmp_path: Path) -> None:
    asked, other = ({"role": "user", "content": text} for text in (ITEMS[0]["question"], "How deep is the sea?"))
    with JsonlWriters(tmp_path) as writers:
        writers.write_all("instructions", [{"messages": [asked]}, {"messages": [other]}, {"messages": [other, asked]}])
        writers.write_all("preferences", [{"prompt": [other], "chosen": [asked], "rejected": []}, {"prompt": [other]}])
        writers.write_all("prompts", [{"prompt": [other]}])
        writers.write_all("twin", [{"messages": [asked]}])
    assert contamination(tmp_path, ITEMS) == {"instructions": 2, "preferences": 1, "prompts": 0}
