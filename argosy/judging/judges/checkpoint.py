"""A checkpoint as judge: the probability that it goes on with A rather than B; nothing is generated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from argosy.evaluation.language_model import LanguageModel
from argosy.judging.comparison import Comparison, Preference, Save
from argosy.judging.wording import question

LETTERS = ("A", "B")
CUE = "\n"


class CheckpointJudge:
    """Asks a language model.

    Args:
        model: the judge.
        chat: whether the question is a user's turn in its chat template.
        name: for records.
    """

    def __init__(self, model: LanguageModel, *, chat: bool, name: str) -> None:
        self.model, self.chat, self.name = model, chat, name

    def prefer(self, comparisons: Sequence[Comparison], save: Save) -> None:
        """P(A) / (P(A) + P(B)) after the question. A question that is longer than the context is not answered: cut at
        its left it would be another one."""
        pairs = [pair for comparison in comparisons for pair in self._requests(comparison)]
        scores = self.model.loglikelihood(pairs)
        encoded = self.model.encode_pairs(pairs)
        for index in range(len(comparisons)):
            a, b = (scores[2 * index + place].logprob for place in range(2))
            longest = max(len(encoded[2 * index + place][0]) for place in range(2))
            if longest > self.model.max_length:
                save(index, Preference(None, f"longer than the judge's context of {self.model.max_length} tokens"))
            elif not math.isfinite(a) or not math.isfinite(b):
                save(index, Preference(None, "the judge's probabilities are not numbers"))
            else:
                save(index, Preference(1 / (1 + math.exp(min(700.0, b - a)))))

    def _requests(self, comparison: Comparison) -> list[tuple[str, str]]:
        text = question(comparison, writes=False)
        if self.chat:
            return [(self.model.chat(text), self.model.answer(letter)) for letter in LETTERS]
        return [(text + CUE, letter) for letter in LETTERS]
