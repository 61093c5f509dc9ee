"""Generative tasks of lm-eval's own (BBH and GSM8K by chains of thought, generative MMLU) against ours, item by item:
the prompts, the texts of two models with their stops, what each text is read as, and the accuracy."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from evals.answers import generated
from evals.chain import parse_chain
from evals.formats import At, find_format, parse_records
from evals.items import AnyItem
from evals.question import Question
from tests import benchmark_files as files
from tests.evaluation_fixtures import make_model
from tests.lm_eval_fixtures import harness_task, hflm, run_harness
from tests.tokenizer_fixtures import make_bpe
from tests.tokenizer_kinds import make_sentencepiece

pytestmark = pytest.mark.usefixtures("own_tasks_alone")
TASKS = Path((find_spec("lm_eval").submodule_search_locations or [""])[0]) / "tasks"  # type: ignore[union-attr]
COUNT, TOKENS = 8, 24
STEPS = " Let's think step by step.\n"
READ = ["So the answer is (B).", "the answer is B.", "So the answer is (A). The answer is 18.", "The answer is 3,000.",
        "B", "(B)", "B.", "The answer is $18.", "B. Paris", "", "no", "the answer is 18. So the answer is (C).", "72",
        "b", "The answer is 72", "So the answer is True.", "The answer is -5.5 m.", "D)",
        "So the answer is (D)"]  # fmt: skip


@cache
def model(kind: str) -> LanguageModel:
    """Of random weights in double precision, as unsure as a trained one."""
    texts = files.texts([files.openbookqa(16), files.cmmlu(16)])
    tokenizer = make_bpe(texts, 900) if kind == "byte_level" else make_sentencepiece(texts, 900)
    made = make_model(len(tokenizer), 8192).double()
    made.generation_config.eos_token_id = tokenizer.eos_token_id
    made.lm_head.weight.data.mul_(0.2)
    made.lm_head.weight.data[2] = 0  # the end of a turn, at which ours ends too
    return LanguageModel(made, Encoder(tokenizer), 4096)


def own_yaml(folder: str, name: str) -> dict[str, Any]:
    """A task's YAML, whatever it includes."""
    (path,) = (TASKS / folder).rglob(f"{name}.yaml")
    return dict(yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader))


def records(samples: Sequence[dict[str, str]], end: str) -> list[dict[str, str]]:
    """Worked examples of a YAML: what is asked, its steps, and the answer that they end with."""
    found = []
    for sample in samples:
        steps, _, answer = sample["target"].rpartition(end)
        found.append({"input": sample.get("input") or sample["question"], "solution": steps.strip(),
                      "target": answer.strip().removesuffix(".")})  # fmt: skip
    return found


def items(found: Sequence[dict[str, Any]], form: str, name: str, subject: str = "") -> list[AnyItem]:
    made = parse_records(found, find_format(form), At(name, 0, subject=subject))
    assert not made.left_out
    return made.items


Case = tuple[Any, list[Question]]  # lm-eval's task, our questions


def bbh(name: str, others: str, root: Path) -> Case:
    """A task of BBH; its documents are the worked examples of other tasks."""
    about = own_yaml("bbh/cot_fewshot", name)
    shots = records(about["fewshot_config"]["samples"], "So the answer is")
    docs = [record for other in others.split()
            for record in records(own_yaml("bbh/cot_fewshot", other)["fewshot_config"]["samples"], "So the answer is")]
    rows = [{"input": doc["input"], "target": doc["target"]} for doc in docs]
    task = files.Published(f"bbh_cot_fewshot_{name}", "bbh/cot_fewshot", "bbh", "bbh", {}, rows)
    theirs = harness_task(
        task, root, base=name, num_fewshot=3, fewshot_config=about["fewshot_config"],
        generation_kwargs={"until": ["</s>", "Q", "\n\n"], "do_sample": False, "max_gen_toks": TOKENS})
    prompt = "Q: {question}\nOptions:\n{options}\nA:" if "Options" in rows[0]["input"] else "Q: {question}\nA:"
    chain = [{"layout": {"separator": "", "description": about["description"]}},
             {"template": {"prompt": prompt, "option": "({label}) {text}"}}, {"few_shot": {"n": 3, "choose": "first"}},
             {"chain_of_thought": {"extract": "bbh_cot", "think": STEPS, "stops": ["</s>", "Q", "\n\n"],
                                   "max_tokens": TOKENS}}]  # fmt: skip
    return theirs, _questions(chain, items(rows, "bbh", "d", name), items(shots, "bbh", "s", name))


def gsm8k(root: Path) -> Case:
    """Eight worked examples that are not GSM8K's."""
    about = own_yaml("gsm8k", "gsm8k-cot")
    task = files.gsm8k(COUNT)
    shots = [{"question": record["input"], "answer": f"{record['solution']}\n#### {record['target']}"}
             for record in records(about["fewshot_config"]["samples"], "The answer is")]
    own = files.Published("gsm8k_cot", "gsm8k", "gsm8k", "gsm8k", {}, task.rows)
    theirs = harness_task(
        own, root, base="gsm8k-cot", num_fewshot=8,
        generation_kwargs={"until": ["Q:", "</s>", "<|im_end|>"], "do_sample": False, "max_gen_toks": TOKENS})
    chain = [{"template": {"prompt": "Q: {question}\nA:"}}, {"few_shot": {"n": 8, "choose": "first"}},
             {"generative": {"extract": "gsm8k_cot", "stops": ["Q:", "</s>", "<|im_end|>"], "max_tokens": TOKENS}}]
    return theirs, _questions(chain, items(task.rows, "gsm8k", "d"), items(shots, "gsm8k", "s"))


def mmlu(root: Path) -> Case:
    """Generative MMLU with two of dev."""
    task = files.mmlu("international_law", COUNT)
    files.write_files(root, {"dev.jsonl": files.mmlu_dev(task)})
    own = files.Published("mmlu_international_law_generative", "mmlu/generative", "mmlu", "mmlu", {}, task.rows)
    theirs = harness_task(own, root, base="mmlu_international_law", fewshot_split="dev", num_fewshot=2,
                          data_files={"dev": str(root / "dev.jsonl")}, generation_kwargs={
                              "until": ["</s>", "\n"], "do_sample": False, "max_gen_toks": TOKENS})  # fmt: skip
    head = "The following are multiple choice questions (with answers) about {subject}.\n\n"
    chain = [{"lm_eval": {"form": "options", "cue": "\nAnswer:", "description": head}},
             {"few_shot": {"n": 2, "choose": "first"}},
             {"generative": {"extract": "line_alone", "stops": ["</s>", "\n"], "max_tokens": TOKENS}}]  # fmt: skip
    read = [items([{**row, "answer": "ABCD"[row["answer"]]} for row in rows], "mmlu", name, "international_law")
            for name, rows in (("d", task.rows), ("s", files.mmlu_dev(task)))]
    return theirs, _questions(chain, *read)


def _questions(chain: Any, asked: list[AnyItem], shots: list[AnyItem]) -> list[Question]:
    questions, left_out = parse_chain("x", chain).all_questions(asked, 0, shots)
    assert not left_out
    return questions


CASES: dict[str, Callable[[Path], Case]] = {
    "bbh_with_options": lambda root: bbh("date_understanding", "disambiguation_qa hyperbaton geometric_shapes", root),
    "bbh_open": lambda root: bbh("multistep_arithmetic_two", "object_counting boolean_expressions word_sorting", root),
    "gsm8k_cot": gsm8k,
    "mmlu_generative": mmlu}


@pytest.mark.parametrize("name", CASES)
def test_each_text_is_written_and_read_as_lm_eval_does(name: str, tmp_path: Path) -> None:
    from lm_eval.api.model import LM

    class Script(LM):  # type: ignore[misc]
        """Says what is in READ, and each item's right answer as its own examples say it."""

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            return [said[at] for at in range(len(requests))]

        loglikelihood = loglikelihood_rolling = generate_until

    theirs, questions = CASES[name](tmp_path)
    strict = next(iter(theirs._filters)).name
    for kind in ("byte_level", "sentencepiece"):
        made = model(kind)
        samples = _samples(hflm(made), theirs, strict)
        assert [question.prompt for question in questions] == [sample["arguments"][0][0] for sample in samples]
        about = questions[0].generation
        assert about
        texts = made.generate([question.prompt for question in questions], about.stops, about.max_tokens)
        assert texts == [sample["resps"][0][0] for sample in samples]
        _same(questions, texts, samples)
    answers = [q.generation.answer for q in questions if q.generation]
    rights = [form.format(answer) for form in ("So the answer is {}.", "The answer is {}.", "{}") for answer in answers]
    mixed = [[READ[(start + at) % len(READ)] for at in range(len(questions))] for start in range(0, len(READ), 3)]
    for said in (*(rights[n * len(questions) :][: len(questions)] for n in range(3)), *mixed):
        _same(questions, said, _samples(Script(), theirs, strict))
    assert sum(generated(q, text).correct for q, text in zip(questions * 3, rights, strict=True)) >= len(questions)


def _samples(lm: Any, task: Any, strict: str) -> list[dict[str, Any]]:
    found = run_harness(lm, task, task.config.task)["samples"][task.config.task]
    return sorted((each for each in found if each["filter"] == strict), key=lambda each: int(each["doc_id"]))


def _same(questions: Sequence[Question], texts: Sequence[str], samples: Sequence[dict[str, Any]]) -> None:
    """Every text is right or wrong on both sides."""
    mine = [float(generated(question, text).correct) for question, text in zip(questions, texts, strict=True)]
    assert mine == [sample["exact_match"] for sample in samples]
