"""Tasks of lm-eval's own as items: `plain` against lm-eval's harness item by item, and every variant made of them."""

from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from evals.chain import parse_chain
from evals.extract.listed import split_prompt
from evals.formats import read_items
from evals.items import Item, Items
from evals.lm_eval import LETTERS_ALONE, NO_QUESTION
from evals.lm_eval.run import ArgosyLM
from evals.question import Pool, Question
from evals.runner import run_benchmarks
from evals.section import Benchmarks
from evals.task import TaskSpec, read_examples, read_task
from evals.tasks.variant_task import VariantTask
from tests import benchmark_files as files
from tests.end_to_end.evals.test_equal_lm_eval import COUNT, model, our_answers, published, same_answers, theirs
from tests.lm_eval_fixtures import harness_answers, harness_task, run_harness, write_group, write_task

pytestmark = pytest.mark.usefixtures("own_tasks_alone")
TASKS = ("mmlu_college_biology", "openbookqa", "arc_easy", "piqa", "social_iqa", "winogrande", "hellaswag", "mathqa",
         "truthfulqa_mc1", "truthfulqa_mc2", "blimp_adjunct_island", "ceval-valid_high_school_history",
         "cmmlu_chinese_history")  # fmt: skip
OWN_ALONE = {"winogrande": NO_QUESTION, "blimp_adjunct_island": NO_QUESTION}
LETTERS = ("mmlu_college_biology", "ceval-valid_high_school_history")
ALWAYS_FIRST = ("truthfulqa_mc1", "blimp_adjunct_island")


def items_of(read: Items) -> list[Item]:
    return [item for item in read.items if isinstance(item, Item)]


def plain(read: Items) -> list[Question]:
    questions, left_out = parse_chain("plain").all_questions(read.items, 0)
    assert not left_out
    return questions


@pytest.mark.parametrize("name", TASKS)
def test_variants_are_made_of_tasks_of_lm_eval(name: str, tmp_path: Path) -> None:
    task = published(name)
    harness_task(task, tmp_path)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    items = items_of(read_task(spec, tmp_path))
    assert items_of(read_task(spec, tmp_path, 3)) == items[:3]
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
    if name in LETTERS:  # texts behind letters are the published ones
        options = [row.get("choices") or [row[letter] for letter in "ABCD"] for row in task.rows]
        assert [item.choices for item in items] == [tuple(text.strip() for text in texts) for texts in options]
        assert [item.question for item in items] == [row["question"].strip() for row in task.rows]
    if name in ALWAYS_FIRST:
        assert len({item.answer for item in items}) > 1  # or "A" would always be right


def test_options_of_mmlu_are_told_from_lm_evals_prompt() -> None:
    """Of every seventh, by the document's `choices`, by a field a letter, or by the lines of the prompt; by turns."""
    items = [item for path in sorted(files.needs("mmlu").rglob("*_test.csv")) for item in read_items(path).items]
    assert len(items) == 14_033
    for number, item in enumerate(items[::7]):
        assert isinstance(item, Item)
        fields = dict(zip("ABCD", item.choices, strict=True))
        prompt = "\n".join((item.question, *(f"{label}. {choice}" for label, choice in fields.items()), "Answer:"))
        doc = ({"choices": list(item.choices)}, fields, {})[number % 3]
        assert split_prompt(prompt, list("ABCD"), doc) == (item.question, item.choices)


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
    assert split_prompt(prompt, [" A", "B"], doc) == found


@pytest.mark.parametrize(("prompt", "question"), [
    ("Question: Is it so?\nPassage: It is.\nQ: bar?\nAnswer:", "Is it so?\nPassage: It is.\nQ: bar?"),
    ("Q: One?\nA: Yes.\n\nQ: Two?\nA: No.\n\nQ: Three?\nA:", "Three?"),
    ("Q: One?\nA: Yes.\n\nQ: Two?\nPassage: It is.\nQuestion: Three?\nA:",
     "Two?\nPassage: It is.\nQuestion: Three?"),
    ("题目：一？\n答案：是\n题目：二？\n答案：", "二？"), ("Passage: It is.\nQuestion: So?\nAnswer:",
                                                       "Passage: It is.\nQuestion: So?"),
])  # fmt: skip
def test_worked_examples_before_a_question_are_no_part_of_it(prompt: str, question: str) -> None:
    assert split_prompt(prompt, ["yes", "no"], {}) == (question, ("yes", "no"))


def test_a_tasks_own_examples_are_asked_as_lm_eval_asks_them(tmp_path: Path) -> None:
    """`num_fewshot` and `description` of its YAML, drawn by lm-eval's sampler; twice, since a draw changes it."""
    name, kind = "arc_easy", "byte_level"
    task = harness_task(published(name), tmp_path, num_fewshot=2, description="Of {{question}}\n\n")
    task.set_fewshot_seed(1234)
    expected = harness_answers(run_harness(theirs(kind), task, name), name)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    for _ in range(2):
        questions = plain(read_task(spec, tmp_path))
        mine = VariantTask.of(name, questions)
        run_harness(ArgosyLM(model(kind)), mine, name)
        same_answers(our_answers(mine), expected)
    item, pool = items_of(read := read_task(spec, tmp_path))[3], Pool(read.items, read_examples(spec, tmp_path))
    (shot,) = parse_chain("one", [{"few_shot": {"n": 1}}]).questions(item, 0, pool)
    head = f"Of {item.question}\n\nQuestion: "
    assert shot.prompt.startswith(head)
    assert shot.prompt.endswith(f"\n\nQuestion: {item.question}\nAnswer:")
    assert shot.prompt.count("Answer:") == 2


@pytest.mark.parametrize("name", ["winogrande", "blimp_adjunct_island"])
def test_examples_of_items_without_a_question_are_lm_evals(name: str, tmp_path: Path) -> None:
    """Text and answer as lm-eval writes those of all other documents, not with the first option whatever is right."""
    task = harness_task(published(name), tmp_path)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    questions, left_out = parse_chain("two", [{"few_shot": {"n": 2}}]).all_questions(
        read_task(spec, tmp_path).items, 0, read_examples(spec, tmp_path)
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


ZH = [
    {"q": "水的沸点是多少？", "o": ["一百摄氏度", "五十度", "零下二十摄氏度左右"], "gold": 0},
    {"q": "中国的首都是哪里？", "o": ["上海", "北京市", "Guangzhou, 广州"], "gold": 1},
    {"q": "《红楼梦》的作者是谁？", "o": ["罗贯中先生", "施耐庵", "曹雪芹"], "gold": 2},
    {"q": "一年有几个月？", "o": ["12个月", "十个月", "ten months"], "gold": 0},
]


def write_zh(root: Path) -> None:
    rows = [{**row, "q": f"{row['q']}（{n}）"} for n in range(6) for row in ZH]
    write_task(root, "zh_texts", rows, doc_to_text="问题：{{q}}\n答案：", doc_to_choice="o", target_delimiter="",
               metric_list=[{"metric": m} for m in ("acc", "acc_norm", "acc_bytes")])  # fmt: skip


@pytest.mark.parametrize("kind", ["byte_level", "ours", "sentencepiece"])
def test_normalised_accuracies_of_chinese_are_those_of_lm_eval(kind: str, tmp_path: Path) -> None:
    """By character and by byte, which choose differently where options mix scripts."""
    from lm_eval.tasks import TaskManager

    write_zh(tmp_path)
    (task,) = TaskManager(include_path=str(tmp_path), include_defaults=False).load(["zh_texts"])["tasks"].values()
    expected = run_harness(theirs(kind), task, "zh_texts")["results"]["zh_texts"]
    section = Benchmarks.model_validate({"tasks": {"zh": {"lm_eval": "zh_texts"}}, "include_path": str(tmp_path)})
    found = run_benchmarks(section, model(kind), tmp_path, chat=False, seed=0, limit=None)
    for metric in ("acc", "acc_norm", "acc_bytes"):
        assert found.metrics[f"bench/zh/plain/{metric}"] == expected[f"{metric},none"]
        assert found.stderr[f"bench/zh/plain/{metric}"] == pytest.approx(expected[f"{metric}_stderr,none"])
    mine = VariantTask.of("zh", plain(read_task(section.tasks["zh"], tmp_path)))
    harness = run_harness(ArgosyLM(model(kind)), mine, "zh")["results"]["zh"]
    assert [harness[f"{m},none"] for m in ("acc", "acc_norm", "acc_bytes")] == [
        expected[f"{m},none"] for m in ("acc", "acc_norm", "acc_bytes")
    ]
    rows = [row for row in found.rows if row["variant"] == "plain"]
    assert sum(row["acc_bytes"] for row in rows) / len(rows) == expected["acc_bytes,none"]


def test_what_cannot_be_an_item_is_named(tmp_path: Path) -> None:
    docs = [{"q": f"Which? {n}", "gold": n % 2 if n < 4 else 7} for n in range(6)]
    write_task(tmp_path, "letters", docs, doc_to_choice=["A", "B"])
    write_task(tmp_path, "written", docs, output_type="generate_until", doc_to_choice=None, doc_to_target="{{gold}}",
               metric_list=None)  # fmt: skip
    write_task(tmp_path, "lost", None, doc_to_choice=["A", "B"])
    write_group(tmp_path, "both", ["letters", "written"])

    def read(name: str) -> Items:
        return read_task(TaskSpec(lm_eval=name, include_path=str(tmp_path)), tmp_path)

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
