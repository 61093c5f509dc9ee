"""On-policy pairs: of a model's own answers one that reaches a threshold beside one that does not (Pang et al. 2024,
"Iterative Reasoning Preference Optimization")."""

from collections.abc import Sequence
from typing import Any, ClassVar

from argosy.model.post.synthesis.methods import PREFERENCES, Answer, Chosen, Method, by_reward, distinct, none_good


class OnPolicyPairs(Method):
    kind: ClassVar[str] = PREFERENCES
    fields: ClassVar[tuple[str, ...]] = ("threshold", "keep", "margin")

    def choose(self, config: Any, answers: Sequence[Answer]) -> list[Chosen] | str:
        """Return at most `keep` pairs of a winner and a loser that no other pair has, the farthest apart first."""
        if problem := none_good(answers):
            return problem
        ordered = by_reward(list(distinct(answers)))
        winners = [answer for answer in ordered if answer.good and answer.value >= config.threshold]
        losers = [answer for answer in reversed(ordered) if answer.text.strip() and answer.value < config.threshold]
        if not winners or not losers:
            return "no answer reaches threshold" if not winners else "all answers reach threshold"
        pairs = [Chosen(winner, loser) for winner, loser in zip(winners, losers, strict=False)]
        kept = [pair for pair in pairs if pair.margin >= config.margin][: config.keep]
        return kept or "the answers' rewards differ by less than margin"
