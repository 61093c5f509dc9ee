"""Tasks of lm-eval's own as items: `plain` against lm-eval's harness item by item, and every variant made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.errors import InputError, StepError
from argosy.evaluation.findings import Findings
from evals.formats import read_items
from evals.items import Item, Items
from evals.listed_options import listed
from evals.lm import ArgosyLM
from evals.lm_eval_items import LETTERS_ALONE, NO_QUESTION
from evals.lm_tasks import VariantTask
from evals.question import Question
from evals.runner import Benchmarks, run_benchmarks
from evals.task_spec import TaskSpec
from evals.variants import parse_chain
from tests import benchmark_files as files
from tests.end_to_end.test_evals_equal_lm_eval import (
    COUNT,
    lm_evals_task,
    model,
    our_answers,
    published,
    run,
    their_answers,
    theirs,
)

TASKS = ("mmlu_college_biology", "openbookqa", "arc_easy", "piqa", "social_iqa", "winogrande", "hellaswag", "mathqa",
         "truthfulqa_mc1", "truthfulqa_mc2", "blimp_adjunct_island", "ceval-valid_high_school_history",
         "cmmlu_chinese_history")  # fmt: skip
OWN_ALONE = {"winogrande": NO_QUESTION, "blimp_adjunct_island": NO_QUESTION}
ALWAYS_FIRST = ("truthfulqa_mc1", "blimp_adjunct_island")


@pytest.fixture(autouse=True)
def own_tasks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval's own tasks take many seconds to list."""
    import lm_eval.tasks

    manager: Any = lm_eval.tasks.TaskManager
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **kwargs: manager(**{**kwargs, "include_defaults": False}))


def items_of(read: Items) -> list[Item]:
    return [item for item in read.items if isinstance(item, Item)]


def plain(read: Items) -> list[Question]:
    questions, left_out = parse_chain("plain").all_questions(read.items, 0)
    assert not left_out
    return questions


def by_item(mine: VariantTask, questions: list[Question]) -> list[dict[str, float]]:
    """In the documents' order."""
    found = dict(zip(mine.answers, our_answers(mine), strict=True))
    return [found[question.id] for question in questions]


@pytest.mark.parametrize("name", TASKS)
def test_plain_is_what_lm_eval_asks_and_variants_are_made(name: str, tmp_path: Path) -> None:
    kind = ("byte_level", "sentencepiece")[TASKS.index(name) % 2]
    expected = run(theirs(kind), lm_evals_task(published(name), tmp_path), name)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    read = spec.read(tmp_path)
    questions = plain(read)
    mine = VariantTask.of(name, questions)
    found = run(ArgosyLM(model(kind)), mine, name)["results"][name]
    first, second = by_item(mine, questions), their_answers(expected, name)
    assert len(first) == len(second) == COUNT
    for ours, other in zip(first, second, strict=True):
        assert ours == pytest.approx(other, abs=1e-4)  # the same requests, character by character
    scores = expected["results"][name]
    several = name == "truthfulqa_mc2"
    assert found["mass,none" if several else "acc,none"] == pytest.approx(scores["acc,none"], abs=1e-6 * several)
    if "acc_norm,none" in scores and "acc_norm,none" in found:
        assert found["acc_norm,none"] == scores["acc_norm,none"]
    check_variants(name, items_of(read))
    assert items_of(spec.read(tmp_path, 3)) == items_of(read)[:3]


def check_variants(name: str, items: list[Item]) -> None:
    assert {item.lang for item in items} == {"zh" if name.startswith(("ceval", "cmmlu")) else "en"}
    assert {item.subject for item in items} == {name}
    for variant in ("permuted", "labels", "wicked", "options_in_text"):
        questions, left_out = parse_chain(variant).all_questions(items, 0)
        if name in OWN_ALONE:
            assert left_out == {OWN_ALONE[name]: COUNT}
        elif name != "truthfulqa_mc2":  # has several right options
            assert len({question.item for question in questions}) >= COUNT / 2, left_out
    if name in OWN_ALONE:
        return
    for item in items:
        assert item.answers or item.choices[item.answer] in parse_chain("layout").questions(item, 0)[0].prompt
        assert "Answer" not in item.question
        assert "答案" not in item.question
        assert not name.startswith("truthful") or "\n" not in item.question  # its worked examples
    if name in ALWAYS_FIRST:
        assert len({item.answer for item in items}) > 1  # or "A" would always be right


def test_options_behind_letters_are_the_published_ones(tmp_path: Path) -> None:
    """Of MMLU, from its documents' `choices`; of C-Eval, from a field a letter."""
    task = published("mmlu_college_biology")
    lm_evals_task(task, tmp_path)
    for item, row in zip(
        items_of(TaskSpec(lm_eval=task.name, include_path=str(tmp_path)).read(tmp_path)), task.rows, strict=True
    ):
        assert (item.question, list(item.choices)) == (row["question"].strip(), [c.strip() for c in row["choices"]])
    task = published("ceval-valid_high_school_history")
    lm_evals_task(task, tmp_path / "zh")
    for item, row in zip(
        items_of(TaskSpec(lm_eval=task.name, include_path=str(tmp_path / "zh")).read(tmp_path)), task.rows, strict=True
    ):
        assert (item.question, list(item.choices)) == (row["question"].strip(), [row[c].strip() for c in "ABCD"])


@pytest.mark.parametrize("fields", ["choices", "a field a letter", "none"])
def test_options_of_all_of_mmlu_are_told_from_lm_evals_prompt(fields: str) -> None:
    """By the document's fields, or, without any, by the lines of the prompt."""
    count = 0
    for path in sorted(files.needs("mmlu").rglob("*_test.csv")):
        for item in read_items(path).items:
            assert isinstance(item, Item)
            lines = [f"{label}. {choice}" for label, choice in zip("ABCD", item.choices, strict=True)]
            docs: dict[str, Any] = {"choices": {"choices": list(item.choices)}, "none": {}}
            doc = docs.get(fields, dict(zip("ABCD", item.choices, strict=True)))
            prompt = "\n".join((item.question, *lines, "Answer:"))
            assert listed(prompt, list("ABCD"), doc) == (item.question, item.choices)
            count += 1
    assert count == 14_033


@pytest.mark.parametrize(("prompt", "doc", "found"), [
    ("Q: Which?\n(A) one (two)\n(B) B. three\nAnswer:", {}, ("Which?", ("one (two)", "B. three"))),
    ("Context.\nQuestion: Which?\nChoices:\nA) one\ntwo\nB) three\nThe correct answer is:", {},
     ("Context.\nQuestion: Which?", ("one\ntwo", "three"))),
    ("Which?\nA. one\nB. two", {"options": ["A. one", "B. two"]}, ("Which?", ("one", "two"))),
    ("Which? A. one B. two\nAnswer:", {"choices": {"text": ["one", "two"]}}, ("Which?", ("one", "two"))),
    ("Which? A. one B. two\nAnswer:", {}, None), ("Which?\nAnswer:", {"choices": ["one", "two"]}, None),
    ("Which?\nA. one\nB. two", {"choices": ["red", "blue"]}, None), ("A. one\nB. two", {}, None),
    ("题目：哪个？\nA．甲\nB．乙\n答案是：", {}, ("哪个？", ("甲", "乙"))),
])  # fmt: skip
def test_question_and_options_are_told_apart_or_refused(prompt: str, doc: dict[str, Any], found: Any) -> None:
    assert listed(prompt, [" A", "B"], doc) == found


@pytest.mark.parametrize(("prompt", "question"), [
    ("Question: Is it so?\nPassage: It is.\nQ: bar?\nAnswer:", "Is it so?\nPassage: It is.\nQ: bar?"),
    ("Q: One?\nA: Yes.\n\nQ: Two?\nA: No.\n\nQ: Three?\nA:", "Three?"),
    ("Q: One?\nA: Yes.\n\nQ: Two?\nPassage: It is.\nQuestion: Three?\nA:",
     "Two?\nPassage: It is.\nQuestion: Three?"),
    ("题目：一？\n答案：是\n题目：二？\n答案：", "二？"), ("Passage: It is.\nQuestion: So?\nAnswer:",
                                                       "Passage: It is.\nQuestion: So?"),
])  # fmt: skip
def test_worked_examples_before_a_question_are_no_part_of_it(prompt: str, question: str) -> None:
    assert listed(prompt, ["yes", "no"], {}) == (question, ("yes", "no"))


def test_a_tasks_own_examples_are_asked_as_lm_eval_asks_them(tmp_path: Path) -> None:
    """`num_fewshot` and `description` of its YAML, drawn by lm-eval's sampler; twice, since a draw changes it."""
    name, kind = "arc_easy", "byte_level"
    task = lm_evals_task(published(name), tmp_path, num_fewshot=2, description="Of {{question}}\n\n")
    task.set_fewshot_seed(1234)
    expected = their_answers(run(theirs(kind), task, name), name)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    for _ in range(2):
        questions = plain(spec.read(tmp_path))
        mine = VariantTask.of(name, questions)
        run(ArgosyLM(model(kind)), mine, name)
        for ours, other in zip(by_item(mine, questions), expected, strict=True):
            assert ours == pytest.approx(other, abs=1e-4)
    item = items_of(spec.read(tmp_path))[3]
    (shot,) = parse_chain("one", [{"few_shot": {"n": 1}}]).questions(item, 0, parse_pool(spec, tmp_path))
    head = f"Of {item.question}\n\nQuestion: "
    assert shot.prompt.startswith(head)
    assert shot.prompt.endswith(f"\n\nQuestion: {item.question}\nAnswer:")
    assert shot.prompt.count("Answer:") == 2


def parse_pool(spec: TaskSpec, data: Path) -> Any:
    from evals.pool import Pool

    return Pool(spec.read(data).items, spec.pool(data))


@pytest.mark.parametrize("name", ["winogrande", "blimp_adjunct_island"])
def test_examples_of_items_without_a_question_are_lm_evals(name: str, tmp_path: Path) -> None:
    """Text and answer as lm-eval writes those of all other documents, not with the first option whatever is right."""
    task = lm_evals_task(published(name), tmp_path)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    questions, left_out = parse_chain("two", [{"few_shot": {"n": 2}}]).all_questions(
        spec.read(tmp_path).items, 0, spec.pool(tmp_path)
    )
    assert not left_out
    assert len(questions) == COUNT
    docs = list(task.eval_docs)
    for number, question in enumerate(questions):
        whole = task.fewshot_context(docs[number], COUNT - 1)
        theirs_all = (whole[0] if isinstance(whole, list) else whole).split("\n\n")[:-1]
        *shots, asked = question.prompt.split("\n\n")
        assert len(shots) == 2
        assert set(shots) <= set(theirs_all)
        assert asked == (whole[0] if isinstance(whole, list) else whole).split("\n\n")[-1]


def test_examples_in_the_form_of_a_gap_have_the_right_option_in_it() -> None:
    items = [Item(f"i/{n}", "en", f"{n}: The cup is in the bag, so the _ is large.", ("cup", "bag"), n % 2)
             for n in range(8)]  # fmt: skip
    chain = parse_chain("x", [{"lm_eval": {"form": "gap"}}, {"few_shot": {"n": 4}}])
    questions, left_out = chain.all_questions(items, 0)
    assert not left_out
    right = {item.question.replace("_", item.choices[item.answer]) for item in items}
    for question, item in zip(questions, items, strict=True):
        *shots, _ = question.prompt.split("\n\n")
        assert len(set(shots)) == 4
        assert set(shots) <= right - {item.question.replace("_", item.choices[item.answer])}


ZH = [
    {"q": "水的沸点是多少？", "o": ["一百摄氏度", "五十度", "零下二十摄氏度左右"], "gold": 0},
    {"q": "中国的首都是哪里？", "o": ["上海", "北京市", "Guangzhou, 广州"], "gold": 1},
    {"q": "《红楼梦》的作者是谁？", "o": ["罗贯中先生", "施耐庵", "曹雪芹"], "gold": 2},
    {"q": "一年有几个月？", "o": ["12个月", "十个月", "ten months"], "gold": 0},
]


def write_zh(root: Path, **fields: Any) -> None:
    rows = [{**row, "q": f"{row['q']}（{n}）"} for n in range(6) for row in ZH]
    (root / "zh.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"task": "zh_texts", "dataset_path": "json", "test_split": "test", "output_type": "multiple_choice",
            "dataset_kwargs": {"data_files": {"test": str(root / "zh.jsonl")}}, "doc_to_text": "问题：{{q}}\n答案：",
            "doc_to_choice": "o", "doc_to_target": "gold", "target_delimiter": "",
            "metric_list": [{"metric": m} for m in ("acc", "acc_norm", "acc_bytes")], **fields}  # fmt: skip
    (root / "zh.yaml").write_text(yaml.safe_dump(task, allow_unicode=True), encoding="utf-8")


@pytest.mark.parametrize("kind", ["byte_level", "ours", "sentencepiece"])
def test_normalised_accuracies_of_chinese_are_those_of_lm_eval(kind: str, tmp_path: Path) -> None:
    """By character and by byte, which choose differently where options mix scripts."""
    from lm_eval.tasks import TaskManager

    write_zh(tmp_path)
    (task,) = TaskManager(include_path=str(tmp_path), include_defaults=False).load(["zh_texts"])["tasks"].values()
    expected = run(theirs(kind), task, "zh_texts")["results"]["zh_texts"]
    section = Benchmarks.model_validate({"tasks": {"zh": {"lm_eval": "zh_texts"}}, "include_path": str(tmp_path)})
    found = run_benchmarks(section, model(kind), tmp_path, chat=False, seed=0, limit=None)
    for metric in ("acc", "acc_norm", "acc_bytes"):
        assert found.metrics[f"bench/zh/plain/{metric}"] == expected[f"{metric},none"]
        assert found.stderr[f"bench/zh/plain/{metric}"] == pytest.approx(expected[f"{metric}_stderr,none"])
    mine = VariantTask.of("zh", plain(section.tasks["zh"].read(tmp_path)))
    harness = run(ArgosyLM(model(kind)), mine, "zh")["results"]["zh"]
    assert [harness[f"{m},none"] for m in ("acc", "acc_norm", "acc_bytes")] == [
        expected[f"{m},none"] for m in ("acc", "acc_norm", "acc_bytes")
    ]
    rows = [row for row in found.rows if row["variant"] == "plain"]
    assert sum(row["acc_bytes"] for row in rows) / len(rows) == expected["acc_bytes,none"]


def test_what_cannot_be_an_item_is_named(tmp_path: Path) -> None:
    rows = [{"q": f"Which? {n}", "gold": n % 2 if n < 4 else 7} for n in range(6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = {"dataset_path": "json", "test_split": "test", "doc_to_text": "q",
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}}}  # fmt: skip
    choice = {**base, "output_type": "multiple_choice", "doc_to_target": "gold", "doc_to_choice": ["A", "B"]}
    written = {"written": {**base, "output_type": "generate_until", "doc_to_target": "{{gold}}"}, "letters": choice,
               "lost": {**choice, "dataset_kwargs": {"data_files": {"test": str(tmp_path / "no.jsonl")}}}}  # fmt: skip
    for name, task in written.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **task}))
    (tmp_path / "both.yaml").write_text(yaml.safe_dump({"group": "both", "task": ["letters", "written"]}))

    def read(name: str) -> Items:
        return TaskSpec(lm_eval=name, include_path=str(tmp_path)).read(tmp_path)

    with pytest.raises(InputError, match="lm-eval's task written is of type generate_until: variants are made of"):
        read("written")
    with pytest.raises(InputError, match=r"lm_eval is 'nobody': .*not a registered task"):
        read("nobody")
    with pytest.raises(StepError, match=r"lm-eval cannot load lost: FileNotFoundError.*its data is read from"):
        read("lost")
    found = read("both")
    assert found.left_out == {"task written is of type generate_until": 1, "answer is not among the choices": 2}
    assert len(found.items) == 4
    _, left_out = parse_chain("cloze").all_questions(found.items, 0)
    assert left_out == {LETTERS_ALONE: 4}
    assert len(plain(found)) == 4


def test_one_that_cannot_be_loaded_has_failed_and_the_others_go_on(tmp_path: Path) -> None:
    from evals.asked import ask, read_tasks

    write_zh(tmp_path)
    section = Benchmarks.model_validate({
        "tasks": {"none": {"lm_eval": "nobody"}, "zh": {"lm_eval": "zh_texts"}}, "include_path": str(tmp_path),
        "variants": {"plain": None, "permuted": {"permuted": {"k": 2}}, "two": [{"few_shot": {"n": 2}}]}})  # fmt: skip
    findings = Findings()
    asked = ask(read_tasks(section.tasks, section.variants, tmp_path, None, findings), 0, findings)
    assert {(each.task, each.variant): len(each.questions) for each in asked} == {
        ("zh", "plain"): 24, ("zh", "permuted"): 48, ("zh", "two"): 24}  # fmt: skip
    assert findings.failed.keys() == {"bench/none"}


@pytest.mark.parametrize("field", [{"files": ["a.jsonl"]}, {"split": "validation"}, {"encoding": "gbk"},
                                   {"optional": True}, {"index_from": 0}])  # fmt: skip
def test_what_does_nothing_beside_lm_eval_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(field))} is given beside lm_eval"):
        TaskSpec.model_validate({**field, "lm_eval": "zh_texts"})
    TaskSpec.model_validate({"lm_eval": "zh_texts", "split": "test", "optional": False})  # as by default


def test_it_also_runs_from_the_command_line_of_lm_eval(tmp_path: Path) -> None:
    write_zh(tmp_path)
    about = {"lm_eval": "zh_texts", "include_path": str(tmp_path), "variant": "permuted"}
    assert len(VariantTask({"task": "mine", "metadata": about}).test_docs()) == 24
