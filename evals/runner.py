"""Benchmarks of a suite on one checkpoint: all questions are made first, and answered together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

from argosy.evidence.results.findings import Findings
from argosy.evidence.results.items import digest
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.rows import JOINED, NO_NUMBER, TOO_LONG
from argosy.model.infer.scorer import Fit
from argosy.model.weights.chat import answer_start
from evals.answers import Answer, answer, generated
from evals.items import Item
from evals.memorisation import memorisation
from evals.metrics import METRICS, chances, metrics
from evals.question import Question
from evals.questions import Batch, make_questions, read_tasks
from evals.section import Benchmarks

_NO_SCORE = dict.fromkeys(Fit, NO_NUMBER) | {Fit.TOO_LONG: TOO_LONG, Fit.JOINED: JOINED}
_NO_ROOM = "prompt and answer are longer than the model"


def run_benchmarks(
    section: Benchmarks, model: LanguageModel, data: Path, *, chat: bool, seed: int, limit: int | None
) -> Findings:
    """Measure `bench/<task>/<variant>/<metric>`, over all items of a task and (`<task>_<lang>`, `<task>_<category>`)
    over some. Tasks that cannot be read or loaded, or at which lm-eval stops, are named in `failed`, and the others go
    on.

    Raises InputError: no task can be read and the section has none of lm-eval's, an unknown variant, nothing but
    unknown lm-eval tasks, or a name both in `tasks` and among the tasks that `lm_eval` loads; StepError: nothing but
    lm-eval tasks that cannot be loaded."""
    findings = Findings()
    tasks = read_tasks(section.tasks, section.variants, data, limit, findings, alone=not section.lm_eval)
    batches = make_questions(tasks, seed, findings)
    questions = [question for batch in batches for question in batch.questions]
    pairs = [_pairs(question, model, chat) for question in questions]
    harness = _run_harness(section, model, batches, pairs, findings, chat=chat, limit=limit)
    each_fit = iter(model.fit(*_flat(pairs)))
    fits = [max((next(each_fit) for _ in each), default=Fit.WHOLE) for each in pairs]  # the worst of a question's pairs
    answers = iter(zip(_answers(model, questions, pairs, fits, chat), fits, strict=True))
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
    findings: Findings, *, chat: bool, limit: int | None,
) -> Findings:  # fmt: skip
    """Run lm-eval's own tasks; our pairs are scored with its first requests, and cached."""
    if not section.lm_eval:
        return Findings()
    from evals.lm_eval.model import ArgosyLM
    from evals.lm_eval.run import load_tasks, run_tasks

    groups = {f"{task.name}_{name}" for task in (batch.task for batch in batches)
              for names in task.groups.values() for name in names}  # fmt: skip
    loaded = load_tasks(section.lm_eval, section.include_path, findings, alone=not section.tasks,
                        taken={*section.tasks, *groups})  # fmt: skip
    return run_tasks(ArgosyLM(model, *_flat(pairs)), loaded, chat=chat, limit=limit)


def _pairs(question: Question, model: LanguageModel, chat: bool) -> list[Pair]:
    """List (context, continuation) of each option; none where the answer is generated."""
    if question.generation is not None:
        return []
    if not chat:
        return [(prompt, question.before + text) for prompt, text in question.requests]
    start = answer_start(model.render)
    return [(model.chat(prompt), start + text) for prompt, text in question.requests]


def _flat(pairs: Sequence[Sequence[Pair]]) -> tuple[list[Pair], list[int]]:
    """List the pairs of all questions, and the number of the question of each."""
    return [pair for each in pairs for pair in each], [number for number, each in enumerate(pairs) for _ in each]


def _answers(
    model: LanguageModel, questions: Sequence[Question], pairs: Sequence[Sequence[Pair]], fits: Sequence[Fit],
    chat: bool,
) -> Iterator[Answer | str]:
    """Answer each question, or say why there is no answer."""
    scores = iter(model.loglikelihood(*_flat(pairs)))
    texts = _generated(model, questions, chat)
    for number, (question, each) in enumerate(zip(questions, pairs, strict=True)):
        values = [next(scores).logprob for _ in each]
        if question.generation is None:
            yield answer(question, values) or _NO_SCORE[fits[number]]
        else:
            yield generated(question, texts[number]) if number in texts else _NO_ROOM


def _generated(model: LanguageModel, questions: Sequence[Question], chat: bool) -> dict[int, str]:
    """Generate the answers, by the question's number, those of equal stops and lengths together; none where prompt and
    answer are longer than the model: without its beginning it is another question."""
    groups: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for number, question in enumerate(questions):
        if (about := question.generation) is not None:
            groups.setdefault((about.stops, about.max_tokens), []).append(number)
    texts: dict[int, str] = {}
    for (stops, max_tokens), chosen in groups.items():
        prompts = [questions[number].prompt for number in chosen]
        prompts = [model.chat(prompt) for prompt in prompts] if chat else prompts
        room = model.has_room(prompts, max_tokens)
        chosen, prompts = list(compress(chosen, room)), list(compress(prompts, room))
        texts |= dict(zip(chosen, model.generate(prompts, stops, max_tokens), strict=True))
    return texts


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


def _digest(question: Question) -> str:
    """Digest the question as the model sees it: the prompt with its examples, and the scored texts or the settings of
    the generated one. For one of several questions of an item, whatever the order of its options: the seed draws that.
    """
    about = question.generation
    texts: list[Sequence[str]] = [question.prompts or (question.prompt,), question.continuations]
    if question.id != question.item:
        texts = [sorted("".join(sorted(text)) for text in each) for each in texts]
    return digest(texts, question.before, [about.stops, about.max_tokens, about.extract, about.labels] if about else [])


def _row(batch: Batch, given: Answer) -> dict[str, Any]:
    question, task = given.question, batch.task
    row: Mapping[str, Any] = {
        "task": task.name, "variant": batch.chain.name, "id": question.id, "item": question.item, "lang": question.lang,
        "correct": given.correct, "correct_norm": given.correct_norm, "chosen": given.chosen, "gold": question.gold,
        "scores": [round(score, 5) for score in given.scores]
    }
    groups = [f"{task.name}_{name}" for name in task.groups[question.item] if name != question.lang]
    optional: dict[str, Any] = {
        "cluster": question.cluster if question.cluster != question.item else None, "text": given.text,
        "extracted": given.extracted, "golds": list(question.golds) or None,
        "calibration": question.calibration or None, "mixed": question.mixed or None, "asked": _digest(question),
        "groups": groups or None, "acc_bytes": given.correct_bytes if not question.labelled and given.scores else None
    }
    return {**row, **{key: value for key, value in optional.items() if value not in (None, "")}}
