"""PPO (Schulman et al. 2017): advantages by a value model."""

from typing import Any, ClassVar

from pydantic import Field

from argosy.core.config.schema import Config, Rate
from argosy.core.lazy import torch
from argosy.model.post.rl.methods import Method, Outcome, token_rewards


class PPOConfig(Config):
    """Config of PPO (Schulman et al. 2017), as in The N+ Implementation Details of RLHF (Huang et al. 2024)."""

    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """Lambda of the generalised advantage estimation."""
    value_clip: float = Field(default=0.2, gt=0)
    """Largest move of a value from its old one."""
    value_learning_rate: Rate = 1e-3
    """Learning rate of the value model."""


class PPO(Method):
    """Generalised advantages, and the returns that the value model learns. Its settings are the config's `ppo`."""

    name: ClassVar[str] = "ppo"
    valued: ClassVar[bool] = True

    def advantages(self, outcome: Outcome, config: Any) -> tuple[Any, Any]:
        rewards = token_rewards(outcome.scores, outcome.kl, outcome.mask, config.kl_coef)
        return generalized_advantages(rewards, outcome.values, outcome.mask, config.ppo.gamma, config.ppo.lam)


def generalized_advantages(rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> tuple[Any, Any]:
    """Return (advantages, returns) by generalised advantage estimation (Schulman et al. 2016).

    The answer's end is terminal: the value after its last token is 0, whether it stopped or was cut."""
    advantages = torch.zeros_like(rewards)
    carried = torch.zeros_like(rewards[:, 0])
    following = torch.zeros_like(carried)
    for at in reversed(range(rewards.size(1))):
        delta = rewards[:, at] + gamma * following - values[:, at]
        carried = (delta + gamma * lam * carried) * mask[:, at]
        advantages[:, at] = carried
        following = values[:, at] * mask[:, at]
    return advantages, (advantages + values) * mask
