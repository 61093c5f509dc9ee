"""Tasks against lm-eval's own, item by item, with three kinds of tokenizers: its definitions from the installed package
through its HFLM, ours from the published files through our suites and scorer. And its tasks as items of ours."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError, StepError
from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from evals.answers import Answer, generated
from evals.chain import parse_chain
from evals.items import Item, Items
from evals.lm_eval import LETTERS_ALONE, NO_QUESTION
from evals.lm_eval.run import ArgosyLM
from evals.question import Pool
from evals.task import TaskSpec, read_examples, read_task
from evals.tasks.variant_task import VariantTask
from tests import benchmark_files as files
from tests.evaluation_fixtures import ask_benchmarks, make_model
from tests.lm_eval_fixtures import harness_answers, harness_task, hflm, run_harness, write_group, write_task
from tests.tokenizer_fixtures import make_bpe
from tests.tokenizer_kinds import make_sentencepiece

pytestmark = pytest.mark.usefixtures("own_tasks_alone")
COUNT = 16
MAKE: dict[str, Callable[[], files.Published]] = {
    "mmlu_college_biology": lambda: files.mmlu("college_biology", COUNT),
    "mmlu_international_law": lambda: files.mmlu("international_law", COUNT),
    "openbookqa": lambda: files.openbookqa(COUNT),
    "arc_easy": lambda: files.arc_easy(COUNT),
    "piqa": lambda: files.piqa(COUNT),
    "social_iqa": lambda: files.social_iqa(COUNT),
    "winogrande": lambda: files.winogrande(COUNT),
    "hellaswag": lambda: files.hellaswag(COUNT),
    "mathqa": lambda: files.mathqa(COUNT),
    "truthfulqa_mc1": lambda: files.truthfulqa(1, COUNT),
    "truthfulqa_mc2": lambda: files.truthfulqa(2, COUNT),
    "blimp_adjunct_island": lambda: files.blimp("adjunct_island", COUNT),
    "ceval-valid_high_school_history": lambda: files.ceval(COUNT),
    "cmmlu_chinese_history": lambda: files.cmmlu(COUNT)}
VARIANT = {"blimp_choice": "sentences"}  # the others' is lm_eval
TOKENIZERS: dict[str, Callable[[list[str]], Any]] = {
    "byte_level": lambda texts: make_bpe(texts, 900),
    "ours": lambda texts: make_bpe(texts, 600, with_bos=True),  # begins a text with BOS
    "sentencepiece": lambda texts: make_sentencepiece(texts, 900)}


@cache
def published(name: str) -> files.Published:
    return MAKE[name]()


@cache
def model(kind: str) -> LanguageModel:
    """Of random weights in double precision (lm-eval adds up long texts' log-probabilities in the model's own), as
    unsure as a trained one, with a tokenizer learnt from texts of two tasks."""
    texts = files.texts([published("openbookqa"), published("cmmlu_chinese_history")])
    tokenizer = TOKENIZERS[kind](texts)
    made = make_model(len(tokenizer), 4096).double()
    made.lm_head.weight.data.mul_(0.2)
    return LanguageModel(made, Encoder(tokenizer), 2048)


@cache
def theirs(kind: str) -> Any:
    return hflm(model(kind))


def our_task(task: files.Published, root: Path, variant: Any = "", **about: Any) -> VariantTask:
    task.write(root)
    variant = variant or VARIANT.get(task.suite, "lm_eval")
    metadata = {"suite": task.suite, "task": task.task, "variant": variant, "data": str(root), **about}
    return VariantTask({"task": task.name, "metadata": metadata})


def our_answers(task: VariantTask) -> list[dict[str, float]]:
    """The same of ours, in the documents' order."""

    def scores(answer: Answer) -> dict[str, float]:
        question = answer.question
        texts = [prompt + question.before + text for prompt, text in question.requests]
        return dict(zip(texts, answer.scores, strict=True))

    return [scores(task.answers[name]) for doc in task.test_docs() for name in doc["questions"]]


def same_answers(mine: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    """The same requests, character by character, with equal log-probabilities."""
    assert len(mine) == len(theirs)
    for ours, other in zip(mine, theirs, strict=True):
        assert ours == pytest.approx(other, abs=1e-4)


# Each task with one kind of tokenizer, an English and a Chinese one with all.
KINDS = [(name, list(TOKENIZERS)[n % 3]) for n, name in enumerate(MAKE)]
KINDS += [(name, kind) for name in ("mmlu_college_biology", "cmmlu_chinese_history") for kind in TOKENIZERS]


@pytest.mark.parametrize(("name", "kind"), list(dict.fromkeys(KINDS)))
def test_each_item_is_scored_as_lm_eval_scores_it(name: str, kind: str, tmp_path: Path) -> None:
    """From the published files in the form `lm_eval`, and `plain` from the documents of lm-eval's task."""
    task = published(name)
    expected = run_harness(theirs(kind), harness_task(task, tmp_path), name)
    items = read_task(TaskSpec(lm_eval=name, include_path=str(tmp_path)), tmp_path).items
    questions, left_out = parse_chain("plain").all_questions(items, 0)
    assert not left_out
    metric = "mass" if name == "truthfulqa_mc2" else "acc"
    for mine in (our_task(task, tmp_path / "published"), VariantTask.of(name, questions)):
        assert not mine.left_out
        found = run_harness(ArgosyLM(model(kind)), mine, name)
        same_answers(our_answers(mine), harness_answers(expected, name))
        assert len(mine.answers) == COUNT
        ours, other = found["results"][name], expected["results"][name]
        assert ours[f"{metric},none"] == pytest.approx(other["acc,none"], abs=1e-6 if metric == "mass" else 0)
        assert ours[f"{metric}_stderr,none"] == pytest.approx(other["acc_stderr,none"], rel=1e-6)
    if "acc_norm,none" in other and "acc_norm,none" in ours:
        assert ours["acc_norm,none"] == other["acc_norm,none"]


def test_five_shots_are_those_of_lm_eval(tmp_path: Path) -> None:
    """MMLU's first five of dev, with its description once."""
    task, kind = published("mmlu_international_law"), "byte_level"
    files.write_files(tmp_path, {"dev.jsonl": files.mmlu_dev(task)})
    data_files = {"dev": str(tmp_path / "dev.jsonl")}
    base = harness_task(task, tmp_path, fewshot_split="dev", num_fewshot=5, data_files=data_files)
    expected = run_harness(theirs(kind), base, task.name)
    mine = our_task(task, tmp_path / "published", "lm_eval_5_shot")
    found = run_harness(ArgosyLM(model(kind)), mine, task.name)
    same_answers(our_answers(mine), harness_answers(expected, task.name))
    assert found["results"][task.name]["acc,none"] == expected["results"][task.name]["acc,none"]


def test_generated_solutions_are_those_of_lm_eval(tmp_path: Path) -> None:
    """GSM8K with three worked examples: the prompts, the written texts, and the readings of both rules."""
    task, kind, count = files.gsm8k(3), "byte_level", 3
    files.write_files(tmp_path, {"train.jsonl": task.files["gsm8k/train.jsonl"]})
    base = harness_task(task, tmp_path, fewshot_split="train", num_fewshot=count,
                         fewshot_config={"sampler": "first_n"}, data_files={"train": str(tmp_path / "train.jsonl")},
                         generation_kwargs={"until": ["Question:"], "do_sample": False, "max_gen_toks": 64})
    samples = run_harness(theirs(kind), base, task.name)["samples"][task.name]
    texts: list[str] = []
    for rule in ("strict", "flexible"):
        layout = {"form": "generated", "before": "Question: ", "cue": "\nAnswer:", "extract": f"gsm8k_{rule}"}
        chain = [{"lm_eval": layout}, {"few_shot": {"n": count, "choose": "first"}}]
        mine = our_task(task, tmp_path / "published", chain)
        questions = [question for doc in mine.test_docs() for question in mine.questions(doc)]
        texts = texts or model(kind).generate([q.prompt for q in questions], questions[0].generation.stops, 64)
        read = [sample for sample in samples if sample["filter"].startswith(rule)]
        answers = [generated(question, text) for question, text in zip(questions, texts, strict=True)]
        assert [answer.question.prompt for answer in answers] == [sample["arguments"][0][0] for sample in read]
        assert [answer.text for answer in answers] == [sample["resps"][0][0] for sample in read]
        assert [float(answer.correct) for answer in answers] == [sample["exact_match"] for sample in read]


OWN_ALONE = {"winogrande": NO_QUESTION, "blimp_adjunct_island": NO_QUESTION}
LETTERS = ("mmlu_college_biology", "ceval-valid_high_school_history")


@pytest.mark.parametrize("name", [name for name in MAKE if name != "mmlu_international_law"])
def test_variants_are_made_of_tasks_of_lm_eval(name: str, tmp_path: Path) -> None:
    task = published(name)
    harness_task(task, tmp_path)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    items = [item for item in read_task(spec, tmp_path).items if isinstance(item, Item)]
    assert read_task(spec, tmp_path, 3).items == items[:3]
    lang = "zh" if name.startswith(("ceval", "cmmlu")) else "en"
    assert {(item.lang, item.subject) for item in items} == {(lang, name)}
    for variant in ("permuted", "labels", "wicked", "options_in_text"):
        questions, left_out = parse_chain(variant).all_questions(items, 0)
        if name in OWN_ALONE:
            assert left_out == {OWN_ALONE[name]: COUNT}
        elif name != "truthfulqa_mc2":  # has several right options
            assert len({question.item for question in questions}) >= COUNT / 2, left_out
    for item in items if name not in OWN_ALONE else ():
        assert item.answers or item.choices[item.answer] in parse_chain("layout").questions(item, 0)[0].prompt
        assert not any(cue in item.question for cue in ("Answer", "答案"))
        assert not name.startswith("truthful") or "\n" not in item.question  # its worked examples
    if name in LETTERS:  # texts behind letters are the published ones
        options = [row.get("choices") or [row[letter] for letter in "ABCD"] for row in task.rows]
        assert [item.choices for item in items] == [tuple(text.strip() for text in texts) for texts in options]
        assert [item.question for item in items] == [row["question"].strip() for row in task.rows]
    if name == "truthfulqa_mc1":
        assert len({item.answer for item in items}) > 1  # or "A" would always be right


def test_a_tasks_own_examples_are_asked_as_lm_eval_asks_them(tmp_path: Path) -> None:
    """`num_fewshot` and `description` of its YAML, drawn by lm-eval's sampler; twice, since a draw changes it."""
    name, kind = "arc_easy", "byte_level"
    task = harness_task(published(name), tmp_path, num_fewshot=2, description="Of {{question}}\n\n")
    task.set_fewshot_seed(1234)
    expected = harness_answers(run_harness(theirs(kind), task, name), name)
    spec = TaskSpec(lm_eval=name, include_path=str(tmp_path))
    for _ in range(2):
        read = read_task(spec, tmp_path)
        mine = VariantTask.of(name, parse_chain("plain").all_questions(read.items, 0)[0])
        run_harness(ArgosyLM(model(kind)), mine, name)
        same_answers(our_answers(mine), expected)
    item, pool = read.items[3], Pool(read.items, read_examples(spec, tmp_path))
    (shot,) = parse_chain("one", [{"few_shot": {"n": 1}}]).questions(item, 0, pool)
    assert shot.prompt.startswith(f"Of {item.question}\n\nQuestion: ")
    assert shot.prompt.endswith(f"\n\nQuestion: {item.question}\nAnswer:")
    assert shot.prompt.count("Answer:") == 2


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_normalised_accuracies_of_chinese_are_those_of_lm_eval(kind: str, tmp_path: Path) -> None:
    """By character and by byte, which choose differently where options mix scripts."""
    from lm_eval.tasks import TaskManager

    rows = [{**row, "q": f"{row['q']}（{n}）"} for n in range(6) for row in ZH]
    write_task(tmp_path, "zh_texts", rows, doc_to_text="问题：{{q}}\n答案：", doc_to_choice="o", target_delimiter="",
               metric_list=[{"metric": m} for m in ("acc", "acc_norm", "acc_bytes")])
    (task,) = TaskManager(include_path=str(tmp_path), include_defaults=False).load(["zh_texts"])["tasks"].values()
    expected = run_harness(theirs(kind), task, "zh_texts")["results"]["zh_texts"]
    section = {"tasks": {"zh": {"lm_eval": "zh_texts"}}, "include_path": str(tmp_path)}
    found = ask_benchmarks(model(kind), tmp_path, section)
    for metric in ("acc", "acc_norm", "acc_bytes"):
        assert found.metrics[f"bench/zh/plain/{metric}"] == expected[f"{metric},none"]
        assert found.stderr[f"bench/zh/plain/{metric}"] == pytest.approx(expected[f"{metric}_stderr,none"])


ZH = [
    {"q": "水的沸点是多少？", "o": ["一百摄氏度", "五十度", "零下二十摄氏度左右"], "gold": 0},
    {"q": "中国的首都是哪里？", "o": ["上海", "北京市", "Guangzhou, 广州"], "gold": 1},
    {"q": "《红楼梦》的作者是谁？", "o": ["罗贯中先生", "施耐庵", "曹雪芹"], "gold": 2},
    {"q": "一年有几个月？", "o": ["12个月", "十个月", "ten months"], "gold": 0}]


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
    assert len(parse_chain("plain").all_questions(found.items, 0)[0]) == 4
