"""Readers of benchmark formats: what is read, what is left out by which name, and what is an error."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.core.errors import InputError
from evals.formats import FORMATS, At, find_format, parse_records, read_items
from evals.items import BrokenItem, Item, OpenItem
from evals.records import label_index, label_indexes, number_index
from tests.shared_data import shared
from tests.step_fixtures import write_lines


def write_csv(path: Path, rows: Sequence[Sequence[str]], encoding: str = "utf-8") -> Path:
    with open(path, "w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows(rows)
    return path


def parse(name: str, record: dict[str, Any], **about: Any) -> Item | OpenItem:
    (item,) = find_format(name).parse(record, At("file", 3, **about))
    return item


def test_a_label_is_read_in_every_writing_and_nothing_else_is_guessed() -> None:
    for text in ("B", "b", "Ｂ", "ｂ", "(B)", "（B）", "B.", " B、", "[b]"):
        assert label_index(text) == 1
    assert label_indexes("A, C、ｄ") == label_indexes(["D", "A", "C", "A"]) == (0, 2, 3)
    assert (number_index("２", 1), number_index(0, 0), number_index("-1", 0)) == (1, 0, -1)
    for wrong in ("", "AB", "1", "β", "right", None, 1):
        with pytest.raises(BrokenItem, match="not a label"):
            label_index(wrong)
    for wrong in ("A", "1.0", True, None):
        with pytest.raises(BrokenItem, match="not a number"):
            number_index(wrong, 0)


def test_argosy_items_with_labels_several_answers_and_none(tmp_path: Path) -> None:
    base = {"question": "Q", "choices": ["x", "y", "z"]}
    path = write_lines(tmp_path / "a.jsonl", [
        {"id": 1, **base, "answer": "Ｃ"},
        {"id": 2, **base, "answer": 0, "answers": [2, 0], "subject": "s", "cluster": "c"},
        {"id": 3, "question": "1+1", "answer": 2, "solution": "", "lang": "zh"},
        {"id": 4, **base, "answer": "2"}])  # fmt: skip
    found = read_items(path)
    assert found.items == [Item("1", "en", "Q", ("x", "y", "z"), 2),
                           Item("2", "en", "Q", ("x", "y", "z"), 0, (0, 2), "s", "c"), OpenItem("3", "zh", "1+1", "2")]
    assert found.left_out == {"answer is not a label of the choices": 1}  # "2" may be counted from 0 or from 1
    assert read_items(path, index_from=1).left_out["answer is not among the choices"] == 1


def test_bom_other_encodings_and_utf16(tmp_path: Path) -> None:
    line = '{"id": "a", "lang": "zh", "question": "问？", "choices": ["甲", "乙"], "answer": 1}\n'
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line.encode())
    assert read_items(path).items[0].question == "问？"
    path.write_bytes(line.encode("gb18030"))
    with pytest.raises(InputError, match="say its `encoding`"):
        read_items(path)
    assert read_items(path, encoding="gb18030").items[0].question == "问？"
    path.write_bytes(line.encode("utf-16"))
    with pytest.raises(InputError, match="is UTF-16"):
        read_items(path)


def test_arc_and_openbookqa_as_published_and_from_hugging_face() -> None:
    choices = {"text": ["x", "y", "z"], "label": ["1", "2", "3"]}
    pairs = [{"label": label, "text": text} for label, text in zip("ABC", "xyz", strict=True)]
    raw = {"id": "q7", "question": {"stem": "Why?", "choices": pairs}, "answerKey": "C"}
    expected = Item("q7", "en", "Why?", ("x", "y", "z"), 2)
    assert parse("arc", raw) == parse("openbookqa", raw) == expected
    assert parse("arc", {"id": "q7", "question": "Why?", "choices": choices, "answerKey": "3"}) == expected
    assert parse("openbookqa", {"id": "q7", "question_stem": "Why?", "choices": choices, "answerKey": "3"}) == expected
    with pytest.raises(BrokenItem, match="not a label"):  # labels are numbers, the key is a letter
        parse("arc", {"id": "q7", "question": "Why?", "choices": choices, "answerKey": "C"})
    with pytest.raises(BrokenItem, match="not labels with texts"):
        parse("arc", {"id": "q7", "question": "Why?", "choices": ["x", "y"], "answerKey": "A"})


def test_answers_in_a_file_beside_the_questions(tmp_path: Path) -> None:
    piqa = [{"goal": f"G{n}", "sol1": "x", "sol2": "y"} for n in range(3)]
    path = write_lines(tmp_path / "valid.jsonl", piqa)
    with pytest.raises(InputError, match="no label: put the file of labels beside it"):
        read_items(path, format="piqa")
    labels = tmp_path / "valid-labels.lst"
    labels.write_text("1\n0\n2\n")
    found = read_items(path, format="piqa")
    assert [item.answer for item in found.items] == [1, 0]  # from 0
    assert found.left_out == {"answer is not among the choices": 1}
    labels.write_text("1\n0\n")
    with pytest.raises(InputError, match=r"3 lines and valid-labels\.lst 2"):
        read_items(path, format="piqa")


def test_clusters_and_solutions() -> None:
    gap = {"qID": "3X-1", "sentence": "A _ b.", "option1": "x", "option2": "y", "answer": "2"}
    assert parse("winogrande", gap) == Item("3X-1", "en", "A _ b.", ("x", "y"), 1, cluster="3X")
    math = {"Problem": "P ?", "options": "a ) 3 , 5 , b ) rs . 4 , c ) 1 : 2 , d ) 7 , e ) none", "correct": "e"}
    assert parse("mathqa", math) == Item("file/3", "en", "P ?", ("3 , 5", "rs . 4", "1 : 2", "7", "none"), 4)
    sums = parse("gsm8k", {"question": "Q", "answer": "5-3=<<5-3=2>>2\n#### 1,002"})
    assert sums == OpenItem("file/3", "en", "Q", "1002", "5-3=<<5-3=2>>2")


def test_the_right_one_of_truthfulqa_is_at_any_place(tmp_path: Path) -> None:
    header = ["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"]
    rows = [["x", "Law", f"Q{n}?", "no", "no; never; ", "yes; always; sure", "u"] for n in range(60)]
    found: Any = read_items(write_csv(tmp_path / "TruthfulQA.csv", [header, *rows]), format="truthfulqa_mc1").items
    assert {(item.choices[item.answer], *sorted(item.choices)) for item in found} == {
        ("no", "always", "no", "sure", "yes")}
    assert {item.answer for item in found} == {0, 1, 2, 3}


def test_unknown_formats_and_suffixes_are_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [])
    with pytest.raises(InputError, match="unknown format 'openbook'; did you mean 'openbookqa'"):
        read_items(path, format="openbook")
    with pytest.raises(InputError, match=r"format ceval is read from \.csv"):
        read_items(path, format="ceval")


GOOD: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"cmmlu"}))
def test_a_field_of_another_kind_is_left_out_and_the_rest_is_read(name: str) -> None:
    """Whatever stands in it: nothing but an item or a reason comes out."""
    good = GOOD[name]
    values: list[Any] = [None, 7, -1, True, "", "?", [], [1], {}, {"choices": ["x"], "labels": [1, 0]}, 1.5]
    broken = [{**good, field: value} for field in good for value in values]
    broken += [{key: value for key, value in good.items() if key != field} for field in good]
    broken += [{**good, key: {**value, inner: junk}} for key, value in good.items() if isinstance(value, dict)
               for inner in value for junk in values]  # fmt: skip
    found = parse_records([*broken, good], find_format(name), At("f"))
    assert any(item.question and item.id for item in found.items)
    assert sum(found.left_out.values()) >= len(good)
    assert len(found.items) + sum(found.left_out.values()) >= len(broken) + 1


def split(question: str, answer: list[str], subject: str = "2010-2022_History_MCQs") -> list[Any]:
    record = {"question": question, "answer": answer}
    return list(find_format("gaokao").parse(record, At("h", 0, subject=subject)))


def test_a_passage_with_questions_is_a_cluster() -> None:
    text = (
        "阅读下文，据此完成 3～4 题．\n3．（4 分）第一问（ ） A．a1 B．b1\nC．c1 D．d1 3.5 万\n4．（4 分）第二问（ ）\n"
        "A．a2 B．b2 C．c2 D．d2")
    first, second = split(text, ["B", "D"], "2010-2022_Geography_MCQs")
    assert first.question == "阅读下文，据此完成 3～4 题．\n第一问（ ）"
    assert first.choices == ("a1", "b1", "c1", "d1 3.5 万")
    assert second.question == "阅读下文，据此完成 3～4 题．\n第二问（ ）"
    assert (second.id, second.cluster, second.answer) == ("h/0.2", "h/0", 3)


def test_blanks_that_share_their_options_or_have_their_own() -> None:
    shared = "Choose.\nSleep is  71  . Eat  72  .\nA. good\nB. well\nC. late\nD. now\nE. no"
    items = split(shared, ["A", "E"], "2012-2022_English_Cloze_Test")
    assert [(item.question[-4:], item.answer) for item in items] == [("\n71.", 0), ("\n72.", 4)]
    own = "I  36  a dog and  37  it.\n36. A. has B. have C. had D. having\n37. A. see B. saw C. seen D. sees"
    second = split(own, ["C", "B"], "2010-2022_English_Fill_in_Blanks")[1]
    assert (second.question, second.choices) == ("I 36 a dog and 37 it.\n37.", ("see", "saw", "seen", "sees"))


@pytest.mark.parametrize(("text", "answer", "reason"), [
    ("问（）A．甲 B．乙 C．丙 D．丁", ["A", "B"], "could not be split"),
    ("表\nA. $\\mathrm{A}$\nB. $B$\nC. C\nD. D", ["A"], "in a table or a picture"),
    ("问（）A．甲 B．乙 C．丙 D．丁", ["F"], "not among the choices")])
def test_what_cannot_be_split_is_named_once_a_question(text: str, answer: list[str], reason: str) -> None:
    found = split(text, answer)
    assert len(found) == len(answer)
    assert all(isinstance(item, BrokenItem) and reason in str(item) for item in found)


def test_all_objective_questions_of_the_benchmark() -> None:
    """Nearly all are read, and what is read stands in the text behind its letter, in this order."""
    asked = read = 0
    for path in sorted(shared("gaokao_bench").glob("*Objective_Q*.json")):
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
