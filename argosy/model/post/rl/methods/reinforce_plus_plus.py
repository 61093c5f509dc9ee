"""REINFORCE++ (Hu 2025): what follows each token, normalised over the rollout."""

from typing import Any, ClassVar

from argosy.model.post.rl.methods import Method, Outcome, token_rewards


class ReinforcePlusPlus(Method):
    name: ClassVar[str] = "reinforce++"

    def advantages(self, outcome: Outcome, config: Any) -> tuple[Any, Any]:
        rewards = token_rewards(outcome.scores, outcome.kl, outcome.mask, config.kl_coef)
        return rewards.flip(1).cumsum(1).flip(1) * outcome.mask, None
