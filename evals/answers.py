"""Answers to questions, from scores of continuations or from generated texts, of one text or by a vote of several."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evals.extract import RULES
from evals.question import Question

NO_ANSWER, OTHER_ANSWER = -1, -2


@dataclass(frozen=True)
class Answer:
    """The choice of a model for one question. `scores`: log-probabilities (nats) of the continuations.

    `chosen`, `chosen_norm` and `chosen_bytes` are indexes of continuations: the most probable one, and the most
    probable one a character and a UTF-8 byte (longer texts are less probable whatever they say; lm-eval's acc, acc_norm
    and acc_bytes). A generated answer has its `text` and the part `extracted` from it; `chosen` is the option that it
    names, or, where the answer is not one option, 0 (right) or OTHER_ANSWER; NO_ANSWER where the rule found none. Of
    several `samples` it is the most frequent one."""

    question: Question
    scores: tuple[float, ...]
    chosen: int
    chosen_norm: int
    chosen_bytes: int
    text: str | None = None
    extracted: str | None = None
    samples: "tuple[Answer, ...]" = ()

    @property
    def correct(self) -> bool:
        """Whether the most probable continuation is the right one, or one of them."""
        return self.is_right(self.chosen)

    def is_right(self, place: int) -> bool:
        """Tell whether a continuation is the right one, or one of them."""
        return place == self.question.gold or place in self.question.golds

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
    elif about.among and found != about.answer:
        chosen = about.among.index(found) if found in about.among else NO_ANSWER
    else:
        chosen = question.gold if RULES.pick(about.extract).same(found, about.answer) else OTHER_ANSWER
    return Answer(question, (), chosen, chosen, chosen, text, found)


def voted(question: Question, texts: Sequence[str]) -> Answer:
    """Read the most frequent answer of several texts (self-consistency, Wang et al. 2022), of equally frequent ones the
    first; texts without an answer have no vote."""
    samples = tuple(generated(question, text) for text in texts)
    if len(samples) == 1:
        return samples[0]
    groups: list[list[Answer]] = []
    for sample in samples:
        if sample.extracted is not None:
            same = next((group for group in groups if _same_answer(group[0], sample)), None)
            groups.append([sample]) if same is None else same.append(sample)
    chosen = max(groups, key=len)[0] if groups else samples[0]
    return replace(chosen, samples=samples)


def _same_answer(one: Answer, other: Answer) -> bool:
    about = one.question.generation
    assert about
    assert one.extracted is not None
    assert other.extracted is not None
    if about.labels or about.among:
        return one.extracted == other.extracted
    return RULES.pick(about.extract).same(one.extracted, other.extracted)


def pass_at(n: int, right: int, k: int) -> float:
    """Estimate the probability that one of `k` samples is right, of which `right` of `n` were: 1 - C(n - right, k) /
    C(n, k), without bias (Chen et al., "Evaluating Large Language Models Trained on Code", 2021)."""
    return 1 - math.comb(n - right, k) / math.comb(n, k)
