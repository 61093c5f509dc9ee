"""From scores of continuations to answers, and from answers to metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.statistics.intervals import Estimate, mean
from evals.question import Question


@dataclass(frozen=True)
class Answer:
    """What a model chose for one question. `scores`: log-probabilities (nats) of the continuations.

    `chosen` and `chosen_norm` are indexes of continuations: the most probable one, and the most probable one a
    UTF-8 byte (longer texts are less probable whatever they say; lm-eval's acc_bytes, OLMES's per-character).
    """

    question: Question
    scores: tuple[float, ...]
    chosen: int
    chosen_norm: int

    @property
    def correct(self) -> bool:
        """Whether the most probable continuation is the right one."""
        return self.chosen == self.question.gold

    @property
    def correct_norm(self) -> bool:
        """The same by byte."""
        return self.chosen_norm == self.question.gold


def answer(question: Question, scores: Sequence[float]) -> Answer | None:
    """The answer that the scores give, or None when one of them is not a number. The first of equals is chosen."""
    if not all(math.isfinite(score) for score in scores):
        return None
    sizes = [len(text.encode()) for text in question.continuations]
    by_byte = [score / size for score, size in zip(scores, sizes, strict=True)]
    return Answer(question, tuple(scores), scores.index(max(scores)), by_byte.index(max(by_byte)))


def metrics(answers: Sequence[Answer]) -> dict[str, Estimate]:
    """Metrics of one variant of one task; none when there are no answers.

    acc; acc_norm (where texts are scored); where an item has several questions (other orders) also acc_all (all
    of them right), consistency (all of them the same choice), acc_averaged (right after averaging the choices'
    probabilities over the orders) and position_bias (see there). Errors are clustered by `cluster`.
    """
    if not answers:
        return {}
    clusters = [_cluster(a) for a in answers]
    found = {"acc": mean([float(a.correct) for a in answers], clusters)}
    if not answers[0].question.labelled:
        found["acc_norm"] = mean([float(a.correct_norm) for a in answers], clusters)
    groups = list(_by_item(answers))
    if len(groups) < len(answers):
        clusters = [_cluster(group[0]) for group in groups]
        found["acc_all"] = mean([float(all(a.correct for a in group)) for group in groups], clusters)
        found["consistency"] = mean([float(len({_choice(a) for a in group}) == 1) for group in groups], clusters)
        found["acc_averaged"] = mean([float(_averaged_is_right(group)) for group in groups], clusters)
        found["position_bias"] = Estimate(position_bias(answers), math.nan, len(answers))
    return found


def position_bias(answers: Sequence[Answer]) -> float:
    """Total variation distance (0 to 1) between the places that were chosen and the places of right options."""
    chosen = Counter(a.chosen for a in answers)
    right = Counter(a.question.gold for a in answers)
    return sum(abs(chosen[place] - right[place]) for place in {*chosen, *right}) / 2 / len(answers)


def _cluster(a: Answer) -> str:
    return a.question.cluster or a.question.item


def _by_item(answers: Iterable[Answer]) -> Iterable[list[Answer]]:
    groups: dict[str, list[Answer]] = {}
    for found in answers:
        groups.setdefault(found.question.item, []).append(found)
    return groups.values()


def _choice(a: Answer) -> int:
    return a.question.origin[a.chosen]


def _averaged_is_right(group: Sequence[Answer]) -> bool:
    totals: dict[int, float] = {}
    for a in group:
        highest = max(a.scores)
        weights = [math.exp(score - highest) for score in a.scores]
        for origin, weight in zip(a.question.origin, weights, strict=True):
            totals[origin] = totals.get(origin, 0.0) + weight / sum(weights)
    best = max(totals, key=lambda origin: totals[origin])
    return best == group[0].question.origin[group[0].question.gold]
