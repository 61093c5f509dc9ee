"""GAOKAO-Bench: questions and options out of running text."""

import json
import re
from pathlib import Path

import pytest

from evals.formats import At, find_format, read_items
from evals.items import BrokenItem, Item

DATA = Path(__file__).parents[4] / "shared/data/gaokao_bench"


def parse(question: str, answer: list[str], subject: str = "2010-2022_History_MCQs") -> list[Item | BrokenItem]:
    record = {"question": question, "answer": answer}
    return list(find_format("gaokao").parse(record, At("h", 0, subject=subject)))


def test_a_passage_with_questions_is_a_cluster() -> None:
    text = (
        "阅读下文，据此完成 3～4 题．\n3．（4 分）第一问（ ） A．a1 B．b1\nC．c1 D．d1 3.5 万\n4．（4 分）第二问（ ）\n"
        "A．a2 B．b2 C．c2 D．d2"
    )
    first, second = parse(text, ["B", "D"], "2010-2022_Geography_MCQs")
    assert isinstance(first, Item)
    assert isinstance(second, Item)
    assert first.question == "阅读下文，据此完成 3～4 题．\n第一问（ ）"
    assert first.choices == ("a1", "b1", "c1", "d1 3.5 万")
    assert second.question == "阅读下文，据此完成 3～4 题．\n第二问（ ）"
    assert (second.id, second.cluster, second.answer) == ("h/0.2", "h/0", 3)


def test_blanks_that_share_their_options_or_have_their_own() -> None:
    shared = "Choose.\nSleep is  71  . Eat  72  .\nA. good\nB. well\nC. late\nD. now\nE. no"
    items = parse(shared, ["A", "E"], "2012-2022_English_Cloze_Test")
    assert [item.question[-4:] for item in items if isinstance(item, Item)] == ["\n71.", "\n72."]
    assert [item.answer for item in items if isinstance(item, Item)] == [0, 4]
    own = "I  36  a dog and  37  it.\n36. A. has B. have C. had D. having\n37. A. see B. saw C. seen D. sees"
    items = parse(own, ["C", "B"], "2010-2022_English_Fill_in_Blanks")
    assert [item.choices for item in items if isinstance(item, Item)][1] == ("see", "saw", "seen", "sees")
    assert isinstance(items[1], Item)
    assert items[1].question == "I 36 a dog and 37 it.\n37."


def test_a_gap_in_an_english_question_stays_a_gap() -> None:
    (item,) = parse("21. I       my homework  now . \nA. did  B. do       C. am doing  D. done", ["C"], "English_MCQs")
    assert isinstance(item, Item)
    assert (item.lang, item.question, item.choices[1]) == ("en", "I _____ my homework now.", "do")


@pytest.mark.parametrize(("text", "answer", "reason"), [
    ("问（）A．甲 B．乙 C．丙", ["A"], "could not be split"),
    ("问（）A．甲 B．乙 C．丙 D．丁", ["A", "B"], "could not be split"),
    ("表\nA. $\\mathrm{A}$\nB. $B$\nC. C\nD. D", ["A"], "in a table or a picture"),
    ("问（）A．甲 B．乙 C．丙 D．丁", ["F"], "not among the choices"),
    ("问（）A．甲 B．乙 C．丙 D．丁", ["?"], "not a label"),
])  # fmt: skip
def test_what_cannot_be_split_is_named_once_a_question(text: str, answer: list[str], reason: str) -> None:
    found = parse(text, answer)
    assert len(found) == len(answer)
    assert all(isinstance(item, BrokenItem) and reason in str(item) for item in found)


def test_all_objective_questions_of_the_benchmark() -> None:
    """Nearly all are read, and what is read stands in the text behind its letter, in this order."""
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not there: GAOKAO-Bench is read from beside the checkout")
    asked = read = 0
    for path in sorted(DATA.glob("*Objective_Q*.json")):
        records = json.loads(path.read_text(encoding="utf-8"))["example"]
        found = read_items(path, format="gaokao")
        count = sum(len(record["answer"]) for record in records)
        assert len(found.items) + sum(found.left_out.values()) == count
        asked, read = asked + count, read + len(found.items)
        for item in found.items:
            assert isinstance(item, Item)
            number = int(item.id.rpartition("/")[2].partition(".")[0])
            text = re.sub(r"\s", "", records[number]["question"])
            options = [re.sub(r"\s|_____", "", choice) for choice in item.choices]
            places = [re.search(re.escape(letter) + "[．.、]" + re.escape(option), text)
                      for letter, option in zip("ABCDEFG", options, strict=False)]  # fmt: skip
            assert all(places), (item.id, item.choices)
            part = int(item.id.partition("/")[2].partition(".")[2] or 1)
            labels = "".join(sorted("ABCDEFG"[right] for right in item.answers or (item.answer,)))
            assert labels == "".join(sorted(records[number]["answer"][part - 1]))
    assert read / asked > 0.95
