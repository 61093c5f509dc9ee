"""Distillation: a teacher's answers, to imitate (Kim and Rush 2016, sequence-level knowledge distillation); with
rewards, those alone that reach a threshold."""

from collections.abc import Sequence
from typing import Any, ClassVar

from argosy.model.post.synthesis.methods import INSTRUCTIONS, METHODS, Answer, Chosen, Method, distinct, none_good


class Distillation(Method):
    kind: ClassVar[str] = INSTRUCTIONS
    fields: ClassVar[tuple[str, ...]] = ("threshold", "keep", "teacher", "teacher_hub", "teacher_url")

    def choose(self, config: Any, answers: Sequence[Answer]) -> list[Chosen] | str:
        """Return at most `keep` records of different answers: the first, or with rewards those with the highest."""
        if config.rewards:
            return METHODS["rejection_sampling"].choose(config, answers)
        if problem := none_good(answers):
            return problem
        good = distinct([answer for answer in answers if answer.good])
        return [Chosen(answer) for answer in list(good)[: config.keep]]
