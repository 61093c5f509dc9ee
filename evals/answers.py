"""Answers to questions: from scores of continuations, or from generated texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evals.extract import RULES
from evals.question import Question

NO_ANSWER, OTHER_ANSWER = -1, -2


@dataclass(frozen=True)
class Answer:
    """The choice of a model for one question. `scores`: log-probabilities (nats) of the continuations.

    `chosen`, `chosen_norm` and `chosen_bytes` are indexes of continuations: the most probable one, and the most
    probable one a character and a UTF-8 byte (longer texts are less probable whatever they say; lm-eval's acc,
    acc_norm and acc_bytes).
    A generated answer has its `text` and the part `extracted` from it; `chosen` is the option that it names, or, where
    the answer is not one option, 0 (right) or OTHER_ANSWER; NO_ANSWER where the rule found none."""

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
    """Read the answer that the scores give, or None when one of them is not a number. The first of equals is chosen."""
    if not all(math.isfinite(score) for score in scores):
        return None
    characters = [len(text) for text in question.continuations]
    sizes = [len(text.encode()) for text in question.continuations]
    chosen, norm, by_byte = (_likeliest(scores, each) for each in ([1] * len(scores), characters, sizes))
    return Answer(question, tuple(scores), chosen, norm, by_byte)


def _likeliest(scores: Sequence[float], sizes: Sequence[int]) -> int:
    """Find the place of the highest score by size; an empty text is none (as in lm-eval)."""
    values = [score / size if size else -math.inf for score, size in zip(scores, sizes, strict=True)]
    return values.index(max(values))


def generated(question: Question, text: str) -> Answer:
    """Read the answer that a generated text gives, by the question's rule; text after a stop is no part of it."""
    about = question.generation
    if about is None:
        raise ValueError(f"question {question.id} is scored, not generated")
    for stop in about.stops:
        text = text.split(stop)[0]
    found = RULES.pick(about.extract).extract(text, about.labels)
    if found is None:
        chosen = NO_ANSWER
    elif about.labels and len(found) == len(about.answer) == 1:
        chosen = about.labels.find(found)
    else:
        chosen = question.gold if RULES.pick(about.extract).same(found, about.answer) else OTHER_ANSWER
    return Answer(question, (), chosen, chosen, chosen, text, found)
