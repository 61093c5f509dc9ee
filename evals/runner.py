"""Benchmarks of a suite on one checkpoint: all questions are made first, and answered together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from argosy.evidence.results.findings import Findings
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.scorer import Fit
from evals.answers import Answer
from evals.ask import ask, flat, pairs_of
from evals.items import Item
from evals.memorisation import memorisation
from evals.metrics import METRICS, chances, metrics
from evals.section import Batch, Benchmarks, Task, describe_samples, make_questions, read_tasks


def prepare(section: Benchmarks, data: Path, *, seed: int,
            limit: int | None) -> Callable[[LanguageModel, bool], Findings]:
    """Read the tasks and make the questions of a section, and return what asks a model them, once: (model, chat) ->
    findings `bench/<task>/<variant>/<metric>`, over all items of a task and (`<task>_<lang>`, `<task>_<category>`) over
    some. Tasks that cannot be read or loaded, or at which lm-eval stops, are named in `failed`, and the others go on.
    Prints what difference small samples could show, before any model is loaded. Raises InputError: no task can be read
    and the section has none of lm-eval's, an unknown variant, nothing but unknown lm-eval tasks, or a name both in
    `tasks` and among the tasks that `lm_eval` loads; StepError: nothing but lm-eval tasks that cannot be loaded."""
    findings = Findings()
    tasks = read_tasks(section.tasks, section.variants, data, limit, findings, alone=not section.lm_eval)
    batches = make_questions(tasks, seed, findings)
    for line in describe_samples(batches):
        print(line, flush=True)
    return partial(_run, section, tasks, batches, findings, seed, limit)


def _run(
    section: Benchmarks, tasks: Sequence[Task], batches: Sequence[Batch], findings: Findings, seed: int,
    limit: int | None, model: LanguageModel, chat: bool,
) -> Findings:  # fmt: skip
    questions = [question for batch in batches for question in batch.questions]
    pairs = [pairs_of(question, model, chat) for question in questions]
    harness = _run_harness(section, model, batches, pairs, findings, chat=chat, seed=seed, limit=limit)
    answers = ask(model, questions, pairs, chat=chat, seed=seed)
    for batch in batches:
        _collect(findings, batch, [next(answers) for _ in batch.questions])
    if section.memorisation is not None:
        for task in tasks:
            items = [item for item in task.items if isinstance(item, Item)]
            findings.merge(memorisation(model, task.name, items, section.memorisation, chat=chat, seed=seed))
    findings.merge(harness)
    return findings


def _run_harness(
    section: Benchmarks, model: LanguageModel, batches: Sequence[Batch], pairs: Sequence[Sequence[Pair]],
    findings: Findings, *, chat: bool, seed: int, limit: int | None,
) -> Findings:  # fmt: skip
    """Run lm-eval's own tasks; our pairs are scored with its first requests, and cached."""
    if not section.lm_eval:
        return Findings()
    from evals.lm_eval.run import ArgosyLM, load_tasks, run_tasks

    groups = {f"{task.name}_{name}" for task in (batch.task for batch in batches)
              for names in task.groups.values() for name in names}  # fmt: skip
    loaded = load_tasks(section.lm_eval, section.include_path, findings, alone=not section.tasks,
                        taken={*section.tasks, *groups})  # fmt: skip
    return run_tasks(ArgosyLM(model, *flat(pairs), seed), loaded, chat=chat, limit=limit)


def _collect(findings: Findings, batch: Batch, answers: Sequence[tuple[Answer | str, Fit]]) -> None:
    """Add the metrics of the answers, the number of questions that were cut, and the reasons without an answer."""
    task, variant = batch.task, batch.chain.name
    where = f"bench/{task.name}/{variant}"
    answered = [given for given, _ in answers if isinstance(given, Answer)]
    for why in (given for given, _ in answers if isinstance(given, str)):
        findings.leave_out(where, why)
    if n := sum(fit is Fit.CUT for given, fit in answers if isinstance(given, Answer)):
        findings.cut[where] = n
    groups = {task.name: answered}
    for given in answered:
        for name in task.groups[given.question.item]:
            groups.setdefault(f"{task.name}_{name}", []).append(given)
    for name, chosen in groups.items():
        own = chances(chosen)
        for metric, estimate in metrics(chosen).items():
            kind = METRICS[metric] if batch.chain.directed else replace(METRICS[metric], better="neither")
            kind = replace(kind, chance=own.get(metric, kind.chance))
            findings.add(f"bench/{name}/{variant}/{metric}", estimate, kind)
    findings.rows += [_row(batch, given) for given in answered]


def _row(batch: Batch, given: Answer) -> dict[str, Any]:
    question, task = given.question, batch.task
    row: Mapping[str, Any] = {
        "task": task.name, "variant": batch.chain.name, "id": question.id, "item": question.item, "lang": question.lang,
        "correct": given.correct, "correct_norm": given.is_right(given.chosen_norm), "chosen": given.chosen,
        "gold": question.gold, "scores": [round(score, 5) for score in given.scores]}
    groups = [f"{task.name}_{name}" for name in task.groups[question.item] if name != question.lang]
    by_byte = given.is_right(given.chosen_bytes) if not question.labelled and given.scores else None
    optional: dict[str, Any] = {
        "cluster": question.cluster if question.cluster != question.item else None, "text": given.text,
        "extracted": given.extracted, "golds": list(question.golds) or None,
        "calibration": question.calibration or None, "mixed": question.mixed or None, "asked": question.digest,
        "groups": groups or None, "acc_bytes": by_byte,
        "samples": [each.extracted for each in given.samples] or None,
        "right_samples": sum(each.correct for each in given.samples) if given.samples else None}
    return {**row, **{key: value for key, value in optional.items() if value not in (None, "")}}
