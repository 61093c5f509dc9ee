"""Benchmarks of a suite on one checkpoint, through lm-eval."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from argosy.config import Config
from argosy.errors import InputError
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from evals.memorisation import Memorisation, memorisation
from evals.metrics import Answer, metrics
from evals.question import Question
from evals.task_spec import TaskSpec
from evals.variants import parse_chain

if TYPE_CHECKING:
    from evals.lm_tasks import VariantTask


class Benchmarks(Config):
    """The `benchmarks` section of a suite.

    `tasks`: for each task its files of items, or what `evals.task_spec.TaskSpec` says.
    `variants`: a name and its chain (nothing: the variant of that name). `lm_eval`: further tasks by their lm-eval
    names, with `include_path` (beside the suite or absolute) for YAML of one's own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: dict[str, TaskSpec] = Field(default_factory=dict)
    variants: dict[str, Any] = Field(default_factory=lambda: {"plain": None})
    memorisation: Memorisation | None = None
    lm_eval: tuple[str, ...] = ()
    include_path: str = ""


def run_benchmarks(
    section: Benchmarks, model: LanguageModel, data: Path, *, chat: bool, seed: int, limit: int | None
) -> Findings:
    """Metrics `bench/<task>/<variant>/<metric>`, over all languages of a task and (`<task>_<lang>`) over each.

    Raises:
        InputError: a file without a usable item, an unknown variant, or an unknown lm-eval task.
    """
    from lm_eval.evaluator import evaluate

    from evals.lm import ArgosyLM

    findings = Findings()
    ours = _our_tasks(section, data, seed, limit, findings)
    named = _named_tasks(section)
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    lm, options = ArgosyLM(model), {"bootstrap_iters": 100, "log_samples": False, "apply_chat_template": chat}
    if ours:
        tasks = {f"{task}/{variant}": made for (task, variant), made in ours.items()}
        evaluate(lm, {"tasks": tasks}, limit=None, **options)  # their items are limited, all their questions count
    results = evaluate(lm, {"tasks": dict(named)}, limit=limit, **options)["results"] if named else {}
    for (task, variant), made in ours.items():
        _collect(findings, task, variant, made)
    if section.memorisation is not None:
        for task, spec in section.tasks.items():
            items = spec.read(data, limit).items
            findings.merge(memorisation(model, task, items, section.memorisation, chat=chat, seed=seed))
    for name in named:
        _collect_named(findings, name, results[name])
    return findings


def _our_tasks(
    section: Benchmarks, data: Path, seed: int, limit: int | None, findings: Findings
) -> dict[tuple[str, str], VariantTask]:
    from evals.lm_tasks import VariantTask

    chains = [parse_chain(name, spec) for name, spec in section.variants.items()]
    tasks: dict[tuple[str, str], VariantTask] = {}
    for task, spec in section.tasks.items():
        found = spec.read(data, limit)
        for reason, n in found.left_out.items():
            findings.leave_out(f"bench/{task}", reason, n)
        for chain in chains:
            questions, unmade = chain.all_questions(found.items, seed)
            for reason, n in unmade.items():
                findings.leave_out(f"bench/{task}/{chain.name}", reason, n)
            if questions and chain.knowledge:
                findings.headline.setdefault(task, []).append(chain.name)
            if questions:
                tasks[task, chain.name] = VariantTask.of(f"{task}/{chain.name}", questions)
    return tasks


def _named_tasks(section: Benchmarks) -> Mapping[str, Any]:
    if not section.lm_eval:
        return {}
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=section.include_path or None, include_defaults=True)
    try:
        tasks: Mapping[str, Any] = manager.load(list(section.lm_eval))["tasks"]
    except KeyError as error:
        raise InputError(f"suite: lm_eval: {error.args[0]}") from None
    for task in tasks.values():
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(1234)  # lm-eval's default
    return tasks


def _collect(findings: Findings, task: str, variant: str, made: VariantTask) -> None:
    answers = list(made.answers.values())
    for reason, n in made.left_out.items():
        findings.leave_out(f"bench/{task}/{variant}", reason, n)
    for name, chosen in _by_language(task, answers).items():
        for metric, estimate in metrics(chosen).items():
            findings.add(f"bench/{name}/{variant}/{metric}", estimate)
    findings.rows += [_row(task, variant, found) for found in answers]


def _by_language(task: str, answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    groups = {task: list(answers)}
    for found in answers:
        groups.setdefault(f"{task}_{found.question.lang}", []).append(found)
    return groups


def _row(task: str, variant: str, found: Answer) -> dict[str, Any]:
    question: Question = found.question
    return {
        "task": task,
        "variant": variant,
        "id": question.id,
        "item": question.item,
        "lang": question.lang,
        "correct": found.correct,
        "correct_norm": found.correct_norm,
        "chosen": found.chosen,
        "gold": question.gold,
        "scores": [round(score, 5) for score in found.scores],
    }


def _collect_named(findings: Findings, name: str, results: Mapping[str, Any]) -> None:
    from argosy.statistics.intervals import Estimate

    for key, value in results.items():
        metric, _, filter_name = key.partition(",")
        if not filter_name or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stderr = results.get(f"{metric}_stderr,{filter_name}")
        variant = "plain" if filter_name == "none" else filter_name
        error = float(stderr) if isinstance(stderr, int | float) else float("nan")
        findings.add(f"bench/{name}/{variant}/{metric}", Estimate(float(value), error, int(results["sample_len"])))
