"""Rejection sampling: answers whose reward reaches a threshold, to imitate (Touvron et al. 2023, Llama 2; Yuan et al.
2023, who keep several different ones)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from argosy.model.post.synthesis.methods import INSTRUCTIONS, Answer, Chosen, Method, by_reward, distinct, none_good


class RejectionSampling(Method):
    kind: ClassVar[str] = INSTRUCTIONS
    fields: ClassVar[tuple[str, ...]] = ("threshold", "keep")

    def choose(self, config: Any, answers: Sequence[Answer]) -> list[Chosen] | str:
        """Return at most `keep` records of different answers, those with the highest rewards."""
        if problem := none_good(answers):
            return problem
        passed = [answer for answer in answers if answer.good and answer.value >= config.threshold]
        if not passed:
            return "no answer reaches threshold"
        return [Chosen(answer) for answer in list(distinct(by_reward(passed)))[: config.keep]]
