"""Best of n: the answer with the highest reward, to imitate (Stiennon et al. 2020), or beside the one with the lowest
as a pair (Pace et al. 2024, "West-of-N")."""

from collections.abc import Sequence
from typing import Any, ClassVar

from argosy.model.post.synthesis.methods import PREFERENCES, Answer, Chosen, Method, by_reward, none_good


class BestOfN(Method):
    fields: ClassVar[tuple[str, ...]] = ("output", "margin")

    def choose(self, config: Any, answers: Sequence[Answer]) -> list[Chosen] | str:
        if problem := none_good(answers):
            return problem
        best = by_reward([answer for answer in answers if answer.good])[0]
        if config.output != PREFERENCES:
            return [Chosen(best)]
        worst = by_reward([answer for answer in answers if answer.text.strip()])[-1]
        pair = Chosen(best, worst)
        if not pair.margin > 0:
            return "all answers have the same reward"
        return [pair] if pair.margin >= config.margin else "the answers' rewards differ by less than margin"
