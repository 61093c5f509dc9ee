"""Benchmarks of a suite on one checkpoint: all questions are made first, and asked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from argosy.config import Config
from argosy.evaluation.asked import digest
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel, answer_start
from argosy.evaluation.scoring import Fit
from evals.asked import Asked, ask, read_tasks
from evals.items import Item
from evals.memorisation import Memorisation, memorisation
from evals.metrics import Answer, answer, generated, metrics
from evals.question import Question
from evals.task_spec import TaskSpec
from evals.unscored import NO_NUMBER, TOO_LONG

Pair = tuple[str, str]
_NO_SCORE = dict.fromkeys(Fit, NO_NUMBER) | {Fit.TOO_LONG: TOO_LONG}
_NO_ROOM = "prompt and answer are longer than the model"


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

    @model_validator(mode="before")
    @classmethod
    def _include_path_of_tasks(cls, values: Any) -> Any:
        """Tasks of lm-eval that name no folder of YAML take the section's."""
        tasks = values.get("tasks") if isinstance(values, Mapping) else None
        if not isinstance(tasks, Mapping) or not (path := values.get("include_path")):
            return values
        with_path = {name: {"include_path": path, **spec} if isinstance(spec, Mapping) and "lm_eval" in spec else spec
                     for name, spec in tasks.items()}  # fmt: skip
        return {**values, "tasks": with_path}


def run_benchmarks(
    section: Benchmarks, model: LanguageModel, data: Path, *, chat: bool, seed: int, limit: int | None
) -> Findings:
    """Metrics `bench/<task>/<variant>/<metric>`, over all items of a task and (`<task>_<lang>`, `<task>_<category>`)
    over some. Tasks that cannot be read or loaded, or at which lm-eval stops, are named in `failed`, and the rest goes
    on.

    Raises:
        InputError: no task can be read where lm-eval's are not asked too, an unknown variant, nothing but unknown
            lm-eval tasks, or a name that is in `tasks` and among what `lm_eval` loads.
        StepError: nothing but lm-eval tasks that cannot be loaded.
    """
    findings = Findings()
    tasks = read_tasks(section.tasks, section.variants, data, limit, findings, alone=not section.lm_eval)
    asked = ask(tasks, seed, findings)
    questions = [question for each in asked for question in each.questions]
    pairs = [_pairs(question, model, chat) for question in questions]
    if section.lm_eval:
        from evals.lm import ArgosyLM
        from evals.named_tasks import load_named, run_named

        lm = ArgosyLM(model, also=[pair for each in pairs for pair in each])
        loaded = load_named(section.lm_eval, section.include_path, findings, alone=not section.tasks,
                            taken={*section.tasks, *_of_parts(asked)})  # fmt: skip
        named = run_named(lm, loaded, chat=chat, limit=limit)
    fits = _fits(model, pairs)
    answers = iter(zip(_answers(model, questions, pairs, fits, chat), fits, strict=True))
    for each in asked:
        _collect(findings, each, [next(answers) for _ in each.questions])
    if section.memorisation is not None:
        for task in tasks:
            items = [item for item in task.items if isinstance(item, Item)]
            findings.merge(memorisation(model, task.name, items, section.memorisation, chat=chat, seed=seed))
    if section.lm_eval:
        findings.merge(named)
    return findings


def _of_parts(asked: Sequence[Asked]) -> set[str]:
    """What metrics over some of a task's items are named: `<task>_<lang>`, `<task>_<category>`."""
    return {f"{each.task}_{name}" for each in asked for names in each.groups.values() for name in names}


def _pairs(question: Question, model: LanguageModel, chat: bool) -> list[Pair]:
    """(context, continuation) of each option; none where the answer is generated."""
    if question.generation is not None:
        return []
    if not chat:
        return [(prompt, question.before + text) for prompt, text in question.requests]
    start = answer_start(model.render)
    return [(model.chat(prompt), start + text) for prompt, text in question.requests]


def _fits(model: LanguageModel, pairs: Sequence[Sequence[Pair]]) -> list[Fit]:
    """The worst of each question's pairs; WHOLE where it has none."""
    found = iter(model.fit([pair for each in pairs for pair in each]))
    return [max((next(found) for _ in each), default=Fit.WHOLE) for each in pairs]


def _answers(
    model: LanguageModel,
    questions: Sequence[Question],
    pairs: Sequence[Sequence[Pair]],
    fits: Sequence[Fit],
    chat: bool,
) -> list[Answer | str]:
    """One a question, or why there is none."""
    scores = iter(model.loglikelihood([pair for each in pairs for pair in each]))
    texts = _generated(model, questions, chat)
    found: list[Answer | str] = []
    for number, (question, each) in enumerate(zip(questions, pairs, strict=True)):
        values = [next(scores).logprob for _ in each]
        if question.generation is None:
            found.append(answer(question, values) or _NO_SCORE[fits[number]])
        else:
            found.append(generated(question, texts[number]) if number in texts else _NO_ROOM)
    return found


def _generated(model: LanguageModel, questions: Sequence[Question], chat: bool) -> dict[int, str]:
    """By a question's number what the model says; those of equal stops and lengths together. One whose prompt and
    answer are longer than the model is not asked: without its beginning it is another question."""
    groups: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for number, question in enumerate(questions):
        if (about := question.generation) is not None:
            groups.setdefault((about.stops, about.max_tokens), []).append(number)
    found: dict[int, str] = {}
    for (stops, max_tokens), chosen in groups.items():
        prompts = [questions[number].prompt for number in chosen]
        prompts = [model.chat(prompt) for prompt in prompts] if chat else prompts
        room = model.has_room(prompts, max_tokens)
        chosen, prompts = list(compress(chosen, room)), list(compress(prompts, room))
        found |= dict(zip(chosen, model.generate(prompts, stops, max_tokens), strict=True))
    return found


def _collect(findings: Findings, asked: Asked, answers: Sequence[tuple[Answer | str, Fit]]) -> None:
    """Metrics of the answers, and how many of them are to a question that was cut; where there is none, why."""
    where = f"{asked.task}/{asked.variant}"
    known = [found for found, _ in answers if isinstance(found, Answer)]
    for why in (found for found, _ in answers if isinstance(found, str)):
        findings.leave_out(f"bench/{where}", why)
    if n := sum(fit is Fit.CUT for found, fit in answers if isinstance(found, Answer)):
        findings.cut[f"bench/{where}"] = n
    groups = {asked.task: known}
    for found in known:
        for name in asked.groups[found.question.item]:
            groups.setdefault(f"{asked.task}_{name}", []).append(found)
    for name, chosen in groups.items():
        for metric, estimate in metrics(chosen).items():
            findings.add(f"bench/{name}/{asked.variant}/{metric}", estimate)
    findings.rows += [_row(asked, found) for found in known]


def _asked(question: Question) -> str:
    """Of what the model is asked: the prompt with its examples, and what is scored or how it is generated. Of one of
    several questions of an item, whatever the order of its options: the seed draws that."""
    about = question.generation
    texts: list[Sequence[str]] = [question.prompts or (question.prompt,), question.continuations]
    if question.id != question.item:
        texts = [sorted("".join(sorted(text)) for text in each) for each in texts]
    return digest(texts, question.before,
                  [about.stops, about.max_tokens, about.extract, about.labels] if about else [])


def _row(asked: Asked, found: Answer) -> dict[str, Any]:
    question = found.question
    row: Mapping[str, Any] = {
        "task": asked.task,
        "variant": asked.variant,
        "id": question.id,
        "item": question.item,
        "lang": question.lang,
        "correct": found.correct,
        "correct_norm": found.correct_norm,
        "chosen": found.chosen,
        "gold": question.gold,
        "scores": [round(score, 5) for score in found.scores],
    }
    more: dict[str, Any] = {"cluster": question.cluster, "text": found.text, "extracted": found.extracted,
            "golds": list(question.golds) or None, "calibration": question.calibration or None,
            "mixed": question.mixed or None, "asked": _asked(question)}  # fmt: skip
    more["groups"] = [f"{asked.task}_{name}" for name in asked.groups[question.item] if name != question.lang] or None
    if question.cluster == question.item:
        more["cluster"] = None
    if not question.labelled and found.scores:
        more["acc_bytes"] = found.correct_bytes
    return {**row, **{key: value for key, value in more.items() if value not in (None, "")}}
