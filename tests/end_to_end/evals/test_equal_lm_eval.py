"""Unmodified tasks against lm-eval's own: its task definitions from the installed package through its HFLM, ours from
the published files through our suites and scorer. Item by item, with three kinds of tokenizers."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from evals.chain import parse_chain
from evals.lm_eval.run import ArgosyLM
from evals.metrics import Answer, generated
from evals.task import TaskSpec, read_task
from evals.tasks.variant_task import VariantTask
from tests import benchmark_files as files
from tests.evaluation_fixtures import make_model
from tests.lm_eval_fixtures import harness_answers, harness_task, hflm, run_harness
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
    "cmmlu_chinese_history": lambda: files.cmmlu(COUNT),
}
VARIANT = {"blimp_choice": "sentences"}  # the others' is lm_eval
TOKENIZERS: dict[str, Callable[[list[str]], Any]] = {
    "byte_level": lambda texts: make_bpe(texts, 900),
    "ours": lambda texts: make_bpe(texts, 600, with_bos=True),  # begins a text with BOS
    "sentencepiece": lambda texts: make_sentencepiece(texts, 900),
}


@cache
def published(name: str) -> files.Published:
    return MAKE[name]()


@cache
def model(kind: str) -> LanguageModel:
    """Of random weights in double precision (lm-eval adds up long texts' log-probabilities in the model's own), as
    unsure as a trained one, with a tokenizer learnt from texts of two tasks."""
    import torch

    texts = files.texts([published("openbookqa"), published("cmmlu_chinese_history")])
    tokenizer = TOKENIZERS[kind](texts)
    made = make_model(len(tokenizer), 4096).double()
    with torch.no_grad():
        made.lm_head.weight.mul_(0.2)
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
    files.Published("", "", "", "", {"dev.jsonl": files.mmlu_dev(task)}, []).write(tmp_path)
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
    files.Published("", "", "", "", {"train.jsonl": task.files["gsm8k/train.jsonl"]}, []).write(tmp_path)
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


def test_rules_read_numbers_as_lm_evals_filters_do(tmp_path: Path) -> None:
    """On texts with numbers of all kinds: GSM8K's solutions, whole and cut."""
    from evals.extract import RULES

    task = files.gsm8k(60)
    base = harness_task(task, tmp_path)
    solutions = [row["answer"] for row in task.rows]
    texts = [*solutions, *(text.rpartition("####")[0] for text in solutions), *(row["question"] for row in task.rows)]
    for name, extract in (("strict-match", "gsm8k_strict"), ("flexible-extract", "gsm8k_flexible")):
        (ensemble,) = (found for found in base._filters if found.name == name)
        regex = ensemble.filters[0]()
        for text in [*texts, "It is 1,234.50$.", "about -3", "#### -1,000.", "none"]:
            (filtered,) = regex.apply([[text]], [{}])
            compared = filtered[0].replace(",", "").replace("$", "").removesuffix(".")
            assert RULES.pick(extract).extract(text, "") == (None if filtered[0] == "[invalid]" else compared)
