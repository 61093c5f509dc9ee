"""Benchmarks of a suite on one checkpoint: all questions are made first, and answered together; and signs that it has
seen items: their published order of options against other orders of the same."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

from argosy.core.statistics.intervals import balanced_weights, mean
from argosy.core.statistics.metric import Metric, share
from argosy.corpus.data.split import derive_seed
from argosy.evidence.results.findings import Findings
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.rows import JOINED, NO_NUMBER, TOO_LONG, problem
from argosy.model.infer.scorer import Fit
from argosy.model.weights.chat import answer_start
from evals.answers import Answer, answer, voted
from evals.chain import parse_chain
from evals.items import Item
from evals.metrics import METRICS, chances, metrics
from evals.question import Question
from evals.section import Batch, Benchmarks, Memorisation, describe_samples, make_questions, read_tasks
from evals.variants import NotApplicable

_NO_SCORE = dict.fromkeys(Fit, NO_NUMBER) | {Fit.TOO_LONG: TOO_LONG, Fit.JOINED: JOINED}


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
    for line in describe_samples(batches):
        print(line, flush=True)
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
    return run_tasks(ArgosyLM(model, *_flat(pairs), seed), loaded, chat=chat, limit=limit)


def ask(
    model: LanguageModel, questions: Sequence[Question], pairs: Sequence[Sequence[Pair]], *, chat: bool, seed: int
) -> Iterator[tuple[Answer | str, Fit]]:
    """Answer each question, or say why there is no answer, with how much of it fits. `pairs`: `pairs_of` each."""
    each_fit = iter(model.fit(*_flat(pairs)))
    fits = [max((next(each_fit) for _ in each), default=Fit.WHOLE) for each in pairs]  # the worst of a question's pairs
    return zip(_answers(model, questions, pairs, fits, chat, seed), fits, strict=True)


def pairs_of(question: Question, model: LanguageModel, chat: bool) -> list[Pair]:
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
    chat: bool, seed: int,
) -> Iterator[Answer | str]:  # fmt: skip
    scores = iter(model.loglikelihood(*_flat(pairs)))
    texts = _generated(model, questions, chat, seed)
    for number, (question, each) in enumerate(zip(questions, pairs, strict=True)):
        values = [next(scores).logprob for _ in each]
        if question.generation is None:
            yield answer(question, values) or _NO_SCORE[fits[number]]
        else:
            yield voted(question, texts[number]) if number in texts else "prompt and answer are longer than the model"


def _generated(model: LanguageModel, questions: Sequence[Question], chat: bool, seed: int) -> dict[int, list[str]]:
    """Generate the answers, by the question's number, those of equal settings together; none where prompt and answer
    are longer than the model: without its beginning it is another question."""
    groups: dict[tuple[tuple[str, ...], int, int, float], list[int]] = {}
    for number, question in enumerate(questions):
        if (about := question.generation) is not None:
            settings = (about.stops, about.max_tokens, about.samples, about.temperature)
            groups.setdefault(settings, []).append(number)
    texts: dict[int, list[str]] = {}
    for (stops, max_tokens, samples, temperature), chosen in groups.items():
        prompts = [questions[number].prompt for number in chosen]
        prompts = [model.chat(prompt) for prompt in prompts] if chat else prompts
        room = model.has_room(prompts, max_tokens)
        chosen, prompts = list(compress(chosen, room)), list(compress(prompts, room))
        each = [prompt for prompt in prompts for _ in range(samples)]
        seeds = [derive_seed("samples", seed, prompt, n) for prompt in prompts for n in range(samples)]
        found = model.generate(each, stops, max_tokens, temperature=temperature, seeds=seeds)
        texts |= {number: found[at * samples :][:samples] for at, number in enumerate(chosen)}
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


def _row(batch: Batch, given: Answer) -> dict[str, Any]:
    question, task = given.question, batch.task
    row: Mapping[str, Any] = {
        "task": task.name, "variant": batch.chain.name, "id": question.id, "item": question.item, "lang": question.lang,
        "correct": given.correct, "correct_norm": given.is_right(given.chosen_norm), "chosen": given.chosen,
        "gold": question.gold, "scores": [round(score, 5) for score in given.scores]
    }
    groups = [f"{task.name}_{name}" for name in task.groups[question.item] if name != question.lang]
    by_byte = given.is_right(given.chosen_bytes) if not question.labelled and given.scores else None
    optional: dict[str, Any] = {
        "cluster": question.cluster if question.cluster != question.item else None, "text": given.text,
        "extracted": given.extracted, "golds": list(question.golds) or None,
        "calibration": question.calibration or None, "mixed": question.mixed or None, "asked": question.digest,
        "groups": groups or None, "acc_bytes": by_byte,
        "samples": [each.extracted for each in given.samples] or None,
        "right_samples": sum(each.correct for each in given.samples) if given.samples else None
    }
    return {**row, **{key: value for key, value in optional.items() if value not in (None, "")}}


_NUMBER = re.compile(r"[-\u2212]?\d[\d,]*(?:\.\d+)?|[-\u2212]?\.\d+")
_ROMAN = re.compile(r"^\(?([IVX]+)\b")
_ROMAN_VALUES = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "X": 10}
_USUAL = (("true", "false"), ("yes", "no"), ("correct", "incorrect"), ("right", "wrong"),
          ("对", "错"), ("正确", "错误"), ("是", "否"))  # fmt: skip


def natural_order(choices: Sequence[str]) -> bool:
    """Tell whether options are sorted numbers (up or down; also with one unit, or roman ones), or words usually said in
    this order (True, False; and their pairs: True, True; False, False; True, False; False, True)."""
    numbers = [value for choice in choices if (value := _number(choice)) is not None]
    if len(set(numbers)) == len(choices) > 1 and numbers in (sorted(numbers), sorted(numbers, reverse=True)):
        return True
    words = [tuple(re.split(r"[,;/，、\s]+", choice.strip().rstrip(".。").lower())) for choice in choices]
    if any([(first,), (second,)] == words[:2] for first, second in _USUAL):
        return True
    return len(words) == 4 and all(len(each) == 2 and set(each) <= {"true", "false"} for each in words)


def _number(text: str) -> float | None:
    """Read the number that an option begins with (after a currency, before a unit)."""
    roman = _ROMAN.match(text.strip())
    if roman:
        return _ROMAN_VALUES.get(roman[1])
    found = _NUMBER.search(text)
    if found is None or len(text[: found.start()].strip()) > 1:
        return None
    return float(found[0].replace(",", "").replace("\u2212", "-"))


GAP, FIRST = Metric("neither", "nats", minor=True), share("neither", minor=True)


@dataclass(frozen=True)
class Trace:
    """Log-probabilities (nats) of one item in the published order and in the others."""

    item: Item
    texts: tuple[float, ...]  # the whole item with its right letter; the published order first
    answers: tuple[float, ...]  # the right letter alone, after the item


def memorisation(
    model: LanguageModel, task: str, items: Sequence[Item], section: Memorisation, *, chat: bool, seed: int
) -> Findings:
    """Measure `bench/<task>/memorisation/<measure>`, which knowledge does not raise: the answer is the same in
    every order (Ni et al., "Training on the Benchmark Is Not All You Need", 2024).

    text_gap and answer_gap: nats that the published order is likelier than the mean of the others, of the whole
    item and of the right letter; text_first and answer_first: share of items in which the published order is the
    likeliest of all (1 / (k + 1) for a model that has not seen them). The right option is at another place in each
    order, and items are weighted so that each place is the published one equally often: a model that prefers a
    letter has no gap and gets its 1 / (k + 1) exactly."""
    findings = Findings()
    traces = _traces(model, items, section.k, chat, seed, findings, f"bench/{task}/memorisation")
    for name in dict.fromkeys([task, *(f"{task}_{trace.item.lang}" for trace in traces)]):
        chosen = [trace for trace in traces if name in (task, f"{task}_{trace.item.lang}")]
        weights = balanced_weights([_place(trace.item) for trace in chosen])
        clusters = [trace.item.cluster or trace.item.id for trace in chosen]
        for part in ("text", "answer") if chosen else ():
            values = [getattr(trace, f"{part}s") for trace in chosen]
            gaps = [v[0] - math.fsum(v[1:]) / len(v[1:]) for v in values]
            first = [float(v[0] > max(v[1:])) for v in values]
            for measure, each, kind in (("gap", gaps, GAP), ("first", first, FIRST)):
                weighted = mean([value * weight for value, weight in zip(each, weights, strict=True)], clusters)
                findings.add(f"bench/{name}/memorisation/{part}_{measure}", weighted, kind)
    findings.rows += [_row_of_trace(task, trace) for trace in traces]
    return findings


def _traces(
    model: LanguageModel, items: Sequence[Item], k: int, chat: bool, seed: int, findings: Findings, where: str
) -> list[Trace]:
    # `layout` is `plain` but for items of lm-eval, which that asks in another form than the other orders.
    published, others = parse_chain("layout"), parse_chain("permuted", {"permuted": {"k": k}})
    orders: list[tuple[Item, list[Question]]] = []
    for item in items:
        if item.mixed:
            findings.leave_out(where, "its options have no published order")
            continue
        try:
            changed = others.questions(item, seed)[: len(item.choices) - 1]
            orders.append((item, [*published.questions(item, seed), *changed]))
        except NotApplicable as reason:
            findings.leave_out(where, str(reason))
    pairs = [pairs_of(question, model, chat)[question.gold] for _, questions in orders for question in questions]
    whole_texts = [context + answer for context, answer in pairs]
    owners = [number for number, (_, questions) in enumerate(orders) for _ in questions]
    model.prepare(pairs, owners, whole_texts)
    answers, texts = iter(model.loglikelihood(pairs, owners)), iter(model.text_loglikelihood(whole_texts))
    traces = []
    for item, questions in orders:
        whole, letter = [next(texts) for _ in questions], [next(answers) for _ in questions]
        if why := problem([*whole, *letter]):
            findings.leave_out(where, why)
        else:
            traces.append(Trace(item, *(tuple(score.logprob for score in each) for each in (whole, letter))))
    return traces


def _place(item: Item) -> tuple[int, int]:
    """Return the place of the published right option, and the number of options."""
    return item.answer, len(item.choices)


def _row_of_trace(task: str, trace: Trace) -> dict[str, Any]:
    scores = [[round(value, 5) for value in values] for values in (trace.texts, trace.answers)]
    return {"task": task, "variant": "memorisation", "id": trace.item.id, "lang": trace.item.lang,
            "place": _place(trace.item), "scores": scores} | (
                {"natural": True} if natural_order(trace.item.choices) else {})
