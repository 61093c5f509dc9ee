"""Distillation: a teacher's answers, to imitate (Kim and Rush 2016, sequence-level knowledge distillation); with
rewards, those alone that reach a threshold."""

from collections.abc import Sequence

from argosy.model.post.synthesis.methods import (
    INSTRUCTIONS,
    Answer,
    Chosen,
    Method,
    Settings,
    distinct,
    find_method,
    none_good,
)


def choose(config: Settings, answers: Sequence[Answer]) -> list[Chosen] | str:
    """Return at most `keep` records of different answers: the first, or with rewards those with the highest."""
    if config.rewards:
        return find_method("rejection_sampling").choose(config, answers)
    if problem := none_good(answers):
        return problem
    good = distinct([answer for answer in answers if answer.good])
    return [Chosen(answer) for answer in list(good)[: config.keep]]


METHOD = Method(choose, INSTRUCTIONS, ("threshold", "keep", "teacher", "teacher_hub", "teacher_url"))
