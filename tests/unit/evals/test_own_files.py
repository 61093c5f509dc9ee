"""Files of one's own: fields by name, options listed in the question, and a right option that always comes first."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.suite import FOLDERS, check_apart
from evals.extract.listed import LETTERS_ALONE, LISTED, OUT_OF_ORDER, split_prompt, without_list
from evals.formats import read_items
from evals.items import Item, Items
from evals.records import Fields
from evals.section import read_tasks
from evals.task import TaskSpec, read_examples
from tests.evaluation_fixtures import make_items, write_items
from tests.step_fixtures import write_lines as write

LETTERS = "abcdefghijklmnopqrstuvwxyz"
OWN = Fields(question="stem", choices=("a", "b", "c", "d"), answer="key")


@pytest.mark.parametrize(("key", "index_from", "place"), [
    (2, None, 2), (3, 1, 2), ("3", 1, 2), ("C", None, 2), ("(c)", None, 2), ("③", None, 2), (" 丙 ", None, 2),
    (["A", "丙"], None, 0)])  # fmt: skip
def test_an_answer_is_an_index_a_label_or_a_text(tmp_path: Path, key: Any, index_from: int | None, place: int) -> None:
    path = write(tmp_path / "q.jsonl", [{"stem": "问？", "a": "甲", "b": "乙", "c": "丙", "d": "丁", "key": key}])
    [item] = read_items(path, fields=OWN, index_from=index_from).items
    assert isinstance(item, Item)
    assert (item.id, item.lang, item.question, item.choices) == ("q/0", "zh", "问？", ("甲", "乙", "丙", "丁"))
    assert (item.answer, item.answers) == (place, (0, 2) if isinstance(key, list) else ())


def test_what_may_be_two_options_or_none_is_left_out_by_name(tmp_path: Path) -> None:
    base = {"stem": "Q?", "a": "B", "b": "x", "c": "y"}
    path = write(tmp_path / "q.jsonl", [{**base, "key": key} for key in ("B", "2", "z", None)] + [{**base, "key": "y"}])
    found = read_items(path, fields=OWN)
    assert [item.answer for item in found.items if isinstance(item, Item)] == [2]
    assert found.left_out == {"answer is the label of one option and the text of another": 1,
                              "answer is not a label of the choices": 2, "no key": 1}  # fmt: skip


def test_options_are_2_to_26_in_any_of_their_forms_also_of_a_csv(tmp_path: Path) -> None:
    texts = [f"text {n}" for n in range(26)]
    forms = [texts, dict(zip(LETTERS, texts, strict=True)), {"label": [*LETTERS], "text": texts},
             [{"label": label, "text": text} for label, text in zip(LETTERS, texts, strict=True)]]
    path = write(tmp_path / "q.jsonl", [{"q": f"Q{n}?", "o": form, "k": "z"} for n, form in enumerate(forms)])
    found = read_items(path, fields=Fields(question="q", choices="o", answer="k")).items
    assert {(item.choices, item.answer) for item in found if isinstance(item, Item)} == {(tuple(texts), 25)}
    (tmp_path / "t.csv").write_text("stem,a,b,c,d,key\nQ?,x,y,,,y\n")
    [item] = read_items(tmp_path / "t.csv", fields=OWN).items
    assert isinstance(item, Item)
    assert (item.choices, item.answer) == (("x", "y"), 1)


def test_a_file_of_other_fields_is_an_error_that_lists_them_and_the_formats_that_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", [{"goal": "G", "sol1": "x", "sol2": "y", "label": 1}])
    with pytest.raises(InputError, match=r"Their fields are goal, sol1, sol2, label; `format: piqa` reads them; else"):
        read_items(path)
    write(path, [{"stem": "Q", "key": 1}])
    with pytest.raises(InputError, match=r"no format reads them: name them, such as `fields: \{question: stem"):
        read_items(path)
    with pytest.raises(ValueError, match="fields are given beside format"):
        TaskSpec(files=("q.jsonl",), format="arc", fields=OWN)


OPTIONS = ["foo bar", "baz", "qux"]
AB, NO = (" A", "B"), ("yes", "no")


@pytest.mark.parametrize(("question", "options"), [
    ("Which? (A) foo bar (B) baz (C) qux", OPTIONS), ("Which?\nA．foo bar\nB．baz\nC．qux\n答案：", OPTIONS),
    ("Which?\nOptions:\n- foo  bar\n- baz\n- qux", OPTIONS), ("Which? Options: foo bar, baz or qux. Answer:", OPTIONS),
    ("Which?\n① foo bar ② baz ③ qux", OPTIONS), ("Which?\nfoo bar\nbaz\nqux", OPTIONS),
    ("Which?", ["(A) foo bar", "(B) baz", "(C) qux"]), ("Which?", ["A．foo bar", "B．baz", "C．qux"])])  # fmt: skip
def test_a_list_of_the_options_is_cut_with_its_labels_and_its_cue(tmp_path: Path, question: str, options: Any) -> None:
    path = write(tmp_path / "q.jsonl", [{"id": 1, "question": question, "choices": options, "answer": 0}])
    [item] = read_items(path).items
    assert isinstance(item, Item)
    assert (item.question, item.choices) == ("Which?", tuple(OPTIONS))


@pytest.mark.parametrize("form", ["Option {A}: {x}", "Choice {1}) {x}", "选项{A}：{x}", "{A} {x}", "**({A})** {x}",
                                  "({i}) {x}", "{0}. {x}", "{W}．{x}", "| {A} | {x} |", "> {x}"])
def test_a_list_behind_labels_of_any_form_is_cut(form: str) -> None:
    labels = zip("ABC", "123", "012", ("i", "ii", "iii"), "ＡＢＣ", OPTIONS, strict=True)
    rows = [form.format(n, m, A=a, i=i, W=w, x=x) for a, m, n, i, w, x in labels]
    for between in ("\n", " ") if "{" in form.replace("{x}", "") else ("\n",):
        assert without_list(between.join(["Which?", *rows]) + "\nAnswer:", OPTIONS) == "Which?"


@pytest.mark.parametrize(("question", "options", "reason"), [
    ("Which? (A) foo bar (B) baz (C) qux. It was raining on that day.", OPTIONS, LISTED),
    ("Which?", ["(A)", "(B)", "(C)"], LETTERS_ALONE), ("Which?", ["(A)foo", "(C)bar", "(B)baz"], OUT_OF_ORDER),
    ("Is foo bar, baz or qux larger?", OPTIONS, ""),
    ("A = foo bar, B = baz, C = qux", OPTIONS, LISTED), ("Choose:\nA: a foo bar\nB: a baz\nC: a qux", OPTIONS, LISTED),
    ("Mail:\n| A | foo bar |\n| B | baz |\nC was lost.", ["foo bar", "baz"], LISTED),
    ("A team (foo bar) and B team (baz) play.", ["foo bar", "baz"], ""), ("f(1) = 3, f(2) = 5", ["3", "5"], ""),
    ("Foo bar slept.\nThen a baz ate what was there.\nA qux left. Who left?", OPTIONS, ""),
    ("Which?", ["(A) and (B)", "only (A)", "none"], "")])  # fmt: skip
def test_what_cannot_be_cut_is_left_out_by_name_and_a_sentence_is_no_list(tmp_path: Path, question: str,
                                                                          options: list[str], reason: str) -> None:
    good = {"id": 0, "question": "Q?", "choices": ["x", "y"], "answer": 0}
    path = write(tmp_path / "q.jsonl", [good, {"id": 1, "question": question, "choices": options, "answer": 0}])
    found = read_items(path)
    assert found.left_out == ({reason: 1} if reason else {})
    assert reason or found.items[1].question == question


@pytest.mark.parametrize(("prompt", "choices", "doc", "found"), [
    ("Q: Which?\n(A) one (two)\n(B) B. three\nAnswer:", AB, {}, ("Which?", ("one (two)", "B. three"))),
    ("Context.\nQuestion: Which?\nChoices:\nA) one\ntwo\nB) three\nThe correct answer is:", AB, {},
     ("Context.\nQuestion: Which?", ("one\ntwo", "three"))),
    ("Which?\nA. one\nB. two", AB, {"options": ["A. one", "B. two"]}, ("Which?", ("one", "two"))),
    ("Which? A. one B. two\nAnswer:", AB, {"choices": {"text": ["one", "two"]}}, ("Which?", ("one", "two"))),
    ("Which? A. one B. two\nAnswer:", AB, {}, None), ("Which?\nAnswer:", AB, {"choices": ["one", "two"]}, None),
    ("Which?\nA. one\nB. two", AB, {"choices": ["red", "blue"]}, None), ("A. one\nB. two", AB, {}, None),
    ("题目：哪个？\nA．甲\nB．乙\n答案是：", AB, {}, ("哪个？", ("甲", "乙"))),
    # AGIEval's and BBH's keep no list.
    ("P. Q: Which? Answer Choices: (A)foo (B)baz\nA: Among A through B, the answer is", ["(A)foo", "(B)baz"], {},
     ("P. Q: Which?", ("foo", "baz"))),
    ("Q: P. Which?\nOptions:\n- foo\n- baz\nA:", ["foo", "baz"], {}, ("P. Which?", ("foo", "baz"))),
    ("Q: P. Which?\nOptions:\n(A) foo\n(B) baz\nA:", ["(A)", "(B)"], {}, ("P. Which?", ("foo", "baz"))),
    # Worked examples before a question are no part of it.
    ("Question: Is it so?\nPassage: It is.\nQ: bar?\nAnswer:", NO, {}, ("Is it so?\nPassage: It is.\nQ: bar?", NO)),
    ("Q: One?\nA: Yes.\n\nQ: Two?\nA: No.\n\nQ: Three?\nA:", NO, {}, ("Three?", NO)),
    ("Q: One?\nA: Yes.\n\nQ: Two?\nPassage: It is.\nQuestion: Three?\nA:", NO, {},
     ("Two?\nPassage: It is.\nQuestion: Three?", NO)),
    ("题目：一？\n答案：是\n题目：二？\n答案：", NO, {}, ("二？", NO))])  # fmt: skip
def test_question_and_options_of_a_prompt_are_told_apart_or_refused(prompt: str, choices: Any, doc: dict[str, Any],
                                                                    found: Any) -> None:
    assert split_prompt(prompt, [*choices], doc) == found


def read(path: Path, mix: bool | None = None, limit: int | None = None) -> Items:
    return read_items(path, limit, mix=mix)


def test_a_right_option_that_is_nearly_always_first_is_mixed_by_id_and_told(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    write_items(path, [replace(item, answer=int(n == 3)) for n, item in enumerate(make_items(40))])
    found = read(path)
    assert found.warnings == ["q: the right option is at place 1 in nearly all records: options are asked in an order "
                              "that the id decides"]
    places = [item.answer for item in found.items if isinstance(item, Item) and item.mixed]
    assert len(places) == 40
    assert max(map(places.count, range(4))) < 20
    assert read(path, limit=7).items == found.items[:7]  # whatever the limit
    kept = read(path, mix=False)
    assert [item.answer for item in kept.items if isinstance(item, Item)].count(0) == 39
    assert "give `mixed: true`" in kept.warnings[0]
    shots = [{"id": f"s{n}", "question": f"Q{n}?", "choices": ["x", "y", f"{n}"], "answer": 0} for n in range(5)]
    spec = TaskSpec(files=(str(path),), shots=(str(write(tmp_path / "s.jsonl", shots)),))
    assert {item.answer for item in read_examples(spec, tmp_path) if isinstance(item, Item)} != {0}
    assert not read(tmp_path / "s.jsonl").warnings  # five alone show nothing
    findings = Findings()
    read_tasks({"t": TaskSpec(files=(str(path),))}, {"plain": None}, tmp_path, None, findings)
    assert "at place 1" in findings.warnings["bench/t"]


def test_balanced_items_stay_and_are_mixed_where_asked(tmp_path: Path) -> None:
    items, path = make_items(40), tmp_path / "q.jsonl"
    write_items(path, items)
    assert (read(path).items, read(path).warnings) == (items, [])
    assert read(path, mix=True).items != items
    yes = [{"id": n, "question": f"Is {n} even?", "choices": ["yes", "no"], "answer": 0} for n in range(40)]
    assert not read(write(path, yes)).warnings  # the same options, whose order says nothing


def test_a_task_of_one_name_in_two_suites_is_one_task(tmp_path: Path) -> None:
    for name, task, variants in (("a", "{files: x.jsonl, limit: 3}", "{plain: }"), ("b", "x.jsonl", "{plain: }"),
                                 ("c", "y.jsonl", "{plain: }"), ("d", "x.jsonl", "{plain: cloze}")):  # fmt: skip
        (tmp_path / f"{name}.yaml").write_text(f"benchmarks: {{tasks: {{t: {task}}}, variants: {variants}}}")
    paths = {name: str(tmp_path / f"{name}.yaml") for name in "abcd"}
    check_apart([paths["a"], paths["b"]])
    with pytest.raises(InputError, match="suites a and c have another t each"):
        check_apart([paths["a"], paths["c"]])
    with pytest.raises(InputError, match="suites b and d have another t/plain each"):
        check_apart([paths["b"], paths["d"]])
    check_apart(path.stem for folder in FOLDERS for path in sorted(folder.glob("*.yaml")))  # as shipped
