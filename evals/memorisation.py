"""Signs that a model has seen items: their published order of options against other orders of the same."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from argosy.core.statistics.intervals import balanced_weights, mean
from argosy.core.statistics.metric import Metric, share
from argosy.evidence.results.findings import Findings
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import problem
from evals.ask import pairs_of
from evals.chain import parse_chain
from evals.items import Item
from evals.question import Question
from evals.section import Memorisation
from evals.variants import NotApplicable

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


def memorisation(model: LanguageModel, task: str, items: Sequence[Item], section: Memorisation, *, chat: bool,
                 seed: int) -> Findings:
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


def _traces(model: LanguageModel, items: Sequence[Item], k: int, chat: bool, seed: int, findings: Findings,
            where: str) -> list[Trace]:
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
