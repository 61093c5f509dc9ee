"""From scores of continuations, or generated texts, to answers, and from answers to metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.statistics.intervals import Estimate, mean
from evals.debiasing import averaged_is_right, pride
from evals.extract import rule
from evals.question import Question

METRICS = ("acc", "acc_norm", "acc_bytes", "mass", "acc_all", "consistency", "acc_averaged", "acc_pride",
           "position_bias", "unparsable", "chance")  # fmt: skip
LOWER_IS_BETTER = ("position_bias", "unparsable")
NO_ANSWER, OTHER_ANSWER = -1, -2


@dataclass(frozen=True)
class Answer:
    """What a model chose for one question. `scores`: log-probabilities (nats) of the continuations.

    `chosen`, `chosen_norm` and `chosen_bytes` are indexes of continuations: the most probable one, and the most
    probable one a character and a UTF-8 byte (longer texts are less probable whatever they say; lm-eval's acc,
    acc_norm and acc_bytes).
    Of a generated answer there are `text` and what was `extracted` from it; `chosen` is the option that it names,
    or, where the answer is not one option, 0 (right) or OTHER_ANSWER; NO_ANSWER where the rule found none.
    """

    question: Question
    scores: tuple[float, ...]
    chosen: int
    chosen_norm: int
    chosen_bytes: int
    text: str | None = None
    extracted: str | None = None

    @property
    def correct(self) -> bool:
        """Whether the most probable continuation is the right one, or one of them."""
        return self.chosen == self.question.gold or self.chosen in self.question.golds

    @property
    def correct_norm(self) -> bool:
        """The same by character."""
        return self.chosen_norm == self.question.gold or self.chosen_norm in self.question.golds

    @property
    def correct_bytes(self) -> bool:
        """The same by byte."""
        return self.chosen_bytes == self.question.gold or self.chosen_bytes in self.question.golds

    @property
    def mass(self) -> float:
        """The share of the options' probability that the right ones have."""
        highest = max(self.scores)
        weights = [math.exp(score - highest) for score in self.scores]
        right = self.question.golds or (self.question.gold,)
        return math.fsum(weights[place] for place in right) / math.fsum(weights)


def answer(question: Question, scores: Sequence[float]) -> Answer | None:
    """The answer that the scores give, or None when one of them is not a number. The first of equals is chosen."""
    if not all(math.isfinite(score) for score in scores):
        return None
    characters = [len(text) for text in question.continuations]
    sizes = [len(text.encode()) for text in question.continuations]
    chosen, norm, by_byte = (_likeliest(scores, each) for each in ([1] * len(scores), characters, sizes))
    return Answer(question, tuple(scores), chosen, norm, by_byte)


def _likeliest(scores: Sequence[float], sizes: Sequence[int]) -> int:
    """The place of the highest score by size; an empty text is none (as in lm-eval)."""
    values = [score / size if size else -math.inf for score, size in zip(scores, sizes, strict=True)]
    return values.index(max(values))


def generated(question: Question, text: str) -> Answer:
    """The answer that a generated text gives, by the question's rule; what follows a stop is no part of it."""
    asked = question.generation
    if asked is None:
        raise ValueError(f"question {question.id} is scored, not generated")
    for stop in asked.stops:
        text = text.split(stop)[0]
    found = rule(asked.extract).extract(text, asked.labels)
    if found is None:
        chosen = NO_ANSWER
    elif asked.labels and len(found) == len(asked.answer) == 1:
        chosen = asked.labels.find(found)
    else:
        chosen = question.gold if found == asked.answer else OTHER_ANSWER
    return Answer(question, (), chosen, chosen, chosen, text, found)


def metrics(answers: Sequence[Answer]) -> dict[str, Estimate]:
    """Metrics of one variant of one task; none when there are no answers. Errors are clustered by `cluster`.

    acc; acc_norm (where different texts are scored; by character, as lm-eval's), acc_bytes (the same by UTF-8 byte,
    where one of them is not ASCII: else the two are one); mass (where several options are right: their share of the
    probability, TruthfulQA's MC2); unparsable (where answers are generated: those without one); chance (what
    a guess gets for acc). Where an item has several questions also acc_all (all of them right); where these have the
    same options in other orders or words, consistency (all of them the same choice), acc_averaged (right after
    averaging the choices' probabilities) and position_bias (see there). Questions for calibration count in acc_pride
    alone (evals/debiasing.py).
    """
    asked = [a for a in answers if not a.question.calibration]
    if not asked:
        return {}
    clusters = [_cluster(a) for a in asked]
    found = {"acc": mean([float(a.correct) for a in asked], clusters)}
    written = [a for a in asked if a.text is not None]
    if written:
        found["unparsable"] = mean([float(a.chosen == NO_ANSWER) for a in written], [_cluster(a) for a in written])
    if not all(a.question.labelled or a.question.prompts or a.text is not None for a in asked):
        found["acc_norm"] = mean([float(a.correct_norm) for a in asked], clusters)
        if not all(text.isascii() for a in asked for text in a.question.continuations):
            found["acc_bytes"] = mean([float(a.correct_bytes) for a in asked], clusters)
    if any(a.question.golds for a in asked):
        found["mass"] = mean([a.mass for a in asked], clusters)
    found |= _of_groups(list(_by_item(asked)), len(asked))
    if len(asked) < len(answers) and (debiased := pride(list(_by_item(answers)))):
        found["acc_pride"] = debiased
    chance = math.fsum(a.question.chance for a in asked) / len(asked)
    return found | {"chance": Estimate(chance, 0.0, len(asked))}


def metric_names(questions: Sequence[Question]) -> list[str]:
    """Which of METRICS the answers to these questions have, in that order."""
    answers = [
        generated(question, "")
        if question.generation
        else Answer(question, (0.0,) * len(question.continuations), 0, 0, 0)
        for question in questions
    ]
    return sorted(metrics(answers), key=METRICS.index)


def position_bias(answers: Sequence[Answer]) -> float:
    """Total variation distance (0 to 1) between the places that were chosen and the places of right options."""
    chosen = Counter(a.chosen for a in answers)
    right = Counter(a.question.gold for a in answers)
    return sum(abs(chosen[place] - right[place]) for place in {*chosen, *right}) / 2 / len(answers)


def _of_groups(groups: list[list[Answer]], n: int) -> dict[str, Estimate]:
    """Metrics of items that have several questions."""
    if len(groups) == n:
        return {}
    clusters = [_cluster(group[0]) for group in groups]
    found = {"acc_all": mean([float(all(a.correct for a in group)) for group in groups], clusters)}
    if not all(_comparable(group) for group in groups):
        return found
    found["consistency"] = mean([float(len({_choice(a) for a in group}) == 1) for group in groups], clusters)
    if all(a.scores for group in groups for a in group):
        found["acc_averaged"] = mean([float(averaged_is_right(group)) for group in groups], clusters)
    answers = [a for group in groups for a in group]
    if all(a.question.origin and a.question.chance >= 1 / len(a.question.origin) for a in answers):
        found["position_bias"] = Estimate(position_bias(answers), math.nan, n)
    return found


def _comparable(group: Sequence[Answer]) -> bool:
    """Whether its questions ask for the same, so that one may choose the same in all."""
    return len({_asked_for(a.question) for a in group}) == 1


def _asked_for(question: Question) -> tuple[frozenset[int], str]:
    """The options, or of an open item the answer."""
    asked = question.generation
    return frozenset(question.origin), asked.answer if asked and not asked.labels else ""


def _cluster(a: Answer) -> str:
    return a.question.cluster or a.question.item


def _by_item(answers: Iterable[Answer]) -> Iterable[list[Answer]]:
    groups: dict[str, list[Answer]] = {}
    for found in answers:
        groups.setdefault(found.question.item, []).append(found)
    return groups.values()


def _choice(a: Answer) -> frozenset[int] | str | None:
    """The item's options that were chosen, whatever their labels were; of an open item what was extracted."""
    if a.extracted is None:
        return frozenset({a.question.origin[a.chosen]}) if a.scores else None
    labels = a.question.generation.labels if a.question.generation else ""
    if not labels:
        return a.extracted
    return frozenset(a.question.origin[labels.index(label)] for label in a.extracted if label in labels)
