"""Has the model seen these items? The published order of options against other orders of the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from argosy.config import Config
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.balance import balanced_weights
from argosy.statistics.intervals import Estimate, mean
from evals.items import Item
from evals.natural import natural_order
from evals.question import SEPARATOR, Question
from evals.variants import NotApplicable, parse_chain


class Memorisation(Config):
    """With how many other orders an item is compared: up to one for each other place of its right option."""

    k: int = Field(3, ge=1)


@dataclass(frozen=True)
class Trace:
    """Of one item: log-probabilities (nats) in the published order and in the others."""

    item: Item
    texts: tuple[float, ...]  # the whole item with its right letter; the published order first
    answers: tuple[float, ...]  # the right letter alone, after the item


def memorisation(
    model: LanguageModel, task: str, items: Sequence[Item], section: Memorisation, *, chat: bool, seed: int
) -> Findings:
    """Metrics `bench/<task>/memorisation/<measure>`, none of which knowledge raises: the answer is the same in
    every order (Ni et al., "Training on the Benchmark Is Not All You Need", 2024).

    text_gap and answer_gap: nats that the published order is likelier than the mean of the others, of the whole
    item and of the right letter; text_first and answer_first: share of items in which the published order is the
    likeliest of all (1 / (k + 1) for a model that has not seen them). The right option is at another place in each
    order, and items are weighted so that each place is the published one equally often: a model that prefers a
    letter has no gap and gets its 1 / (k + 1) exactly.
    """
    findings = Findings()
    traces = _traces(model, items, section.k, chat, seed, findings, f"bench/{task}/memorisation")
    for name in dict.fromkeys([task, *(f"{task}_{trace.item.lang}" for trace in traces)]):
        chosen = [trace for trace in traces if name in (task, f"{task}_{trace.item.lang}")]
        weights = balanced_weights([_place(trace.item) for trace in chosen])
        clusters = [trace.item.cluster or trace.item.id for trace in chosen]
        for part in ("text", "answer") if chosen else ():
            values = [getattr(trace, f"{part}s") for trace in chosen]
            gaps = [v[0] - math.fsum(v[1:]) / len(v[1:]) for v in values]
            findings.add(f"bench/{name}/memorisation/{part}_gap", _weighted(gaps, weights, clusters))
            first = [float(v[0] > max(v[1:])) for v in values]
            findings.add(f"bench/{name}/memorisation/{part}_first", _weighted(first, weights, clusters))
    findings.rows += [_row(task, trace) for trace in traces]
    return findings


def _traces(
    model: LanguageModel, items: Sequence[Item], k: int, chat: bool, seed: int, findings: Findings, where: str
) -> list[Trace]:
    # `layout` is `plain` but for items of lm-eval, which that asks in another form than the other orders.
    published, others = parse_chain("layout"), parse_chain("permuted", {"permuted": {"k": k}})
    asked: list[tuple[Item, list[Question]]] = []
    for item in items:
        if item.mixed:
            findings.leave_out(where, "its options have no published order")
            continue
        try:
            changed = others.questions(item, seed)[: len(item.choices) - 1]
            asked.append((item, [*published.questions(item, seed), *changed]))
        except NotApplicable as reason:
            findings.leave_out(where, str(reason))
    pairs = [_pair(model, question, chat) for _, questions in asked for question in questions]
    whole_texts = [context + answer for context, answer in pairs]
    model.prepare(pairs, whole_texts)
    answers, texts = iter(model.loglikelihood(pairs)), iter(model.text_loglikelihood(whole_texts))
    traces = []
    for item, questions in asked:
        whole = tuple(next(texts).logprob for _ in questions)
        letter = tuple(next(answers).logprob for _ in questions)
        if all(map(math.isfinite, (*whole, *letter))):
            traces.append(Trace(item, whole, letter))
        else:
            findings.leave_out(where, "score is not a number")
    return traces


def _pair(model: LanguageModel, question: Question, chat: bool) -> tuple[str, str]:
    answer = question.continuations[question.gold]
    if chat:
        return model.chat(question.prompt), model.answer(answer)
    return question.prompt, SEPARATOR[question.lang] + answer


def _weighted(values: Sequence[float], weights: Sequence[float], clusters: Sequence[str]) -> Estimate:
    return mean([value * weight for value, weight in zip(values, weights, strict=True)], clusters)


def _place(item: Item) -> tuple[int, int]:
    """Where the right option is published, and among how many."""
    return item.answer, len(item.choices)


def _row(task: str, trace: Trace) -> dict[str, Any]:
    scores = [[round(value, 5) for value in values] for values in (trace.texts, trace.answers)]
    return {"task": task, "variant": "memorisation", "id": trace.item.id, "lang": trace.item.lang,
            "place": _place(trace.item), "scores": scores} | (
                {"natural": True} if natural_order(trace.item.choices) else {})
