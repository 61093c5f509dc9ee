"""Config of reinforcement learning: what GRPO, RLOO and PPO share, and what each has of its own."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from argosy.config import Config, Rate, Upstream
from argosy.posttraining.config import PositiveInt, PosttrainingConfig


class GroupConfig(Config):
    """GRPO and RLOO: `size` answers to each prompt; their mean reward is the baseline."""

    size: int = Field(default=8, ge=2)


class PPOConfig(Config):
    """PPO (Schulman et al. 2017), with the details of Huang et al. 2024 (The N+ Implementation Details of RLHF).

    Attributes:
        epochs, minibatches: passes over each batch of answers, and into how many parts each pass is cut.
        gamma, lam: discount, and lambda of the generalised advantage estimation.
        value_coef, value_clip: weight of the value loss, and how far a value may move from its old one.
        value_learning_rate: of the value model.
        kl_target: nats a token that the KL coefficient is steered to (Ziegler et al. 2019); 0 keeps it fixed.
        kl_horizon: answers over which the coefficient adapts.
        whiten_rewards: scale the rewards of a batch to variance 1, keeping their mean.
        missing_stop_penalty: taken from the reward of an answer that was cut at the limit.
    """

    epochs: PositiveInt = 1
    minibatches: PositiveInt = 2
    gamma: float = Field(default=1.0, gt=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1)
    value_coef: float = Field(default=0.5, ge=0)
    value_clip: float = Field(default=0.2, gt=0)
    value_learning_rate: Rate = 1e-3
    kl_target: float = Field(default=0.0, ge=0)
    kl_horizon: PositiveInt = 10_000
    whiten_rewards: bool = False
    missing_stop_penalty: float = Field(default=1.0, ge=0)


class RLHFConfig(PosttrainingConfig):
    """Reinforcement learning from rewards of sampled answers.

    Attributes:
        reward_model: directory of the reward_model step; needed if `rewards` has "model".
        prompts: file of the data step; `heldout_limit` of its prompts, at most a quarter, are held out.
        method: ppo, grpo (Shao et al. 2024) or rloo (Ahmadian et al. 2024).
        rewards: weight of each reward; the names are the modules of argosy.posttraining.rewards.
        batch_size: answers an optimiser step (ppo: a rollout).
        kl_coef: how strongly the policy is held to the reference (the checkpoint that it starts from).
        clip: how far the probability ratio may leave 1.
        temperature: of the sampling, in training and in the sampled evaluation.
    """

    reward_model: Upstream = ""
    prompts: str = "prompts.jsonl"
    method: Literal["ppo", "grpo", "rloo"] = "ppo"
    rewards: dict[str, float] = Field(default={"accept": 1.0, "format": 0.2, "model": 0.1}, min_length=1)
    batch_size: PositiveInt = 64
    micro_batch_size: PositiveInt = 64
    learning_rate: Rate = 3e-4
    max_new_tokens: PositiveInt = 32
    temperature: float = Field(default=1.0, gt=0)
    kl_coef: float = Field(default=0.05, ge=0)
    clip: float = Field(default=0.2, gt=0, lt=1)
    group: GroupConfig = GroupConfig()
    ppo: PPOConfig = PPOConfig()

    @model_validator(mode="after")
    def _check_rl(self) -> Self:
        from argosy.posttraining.reward import reward_names

        unknown = sorted(set(self.rewards) - set(reward_names()))
        if unknown:
            raise ValueError(f"rewards has unknown names {unknown}; allowed: {', '.join(reward_names())}")
        if self.method != "ppo" and self.micro_batch_size % self.group.size:
            raise ValueError(
                f"micro_batch_size={self.micro_batch_size} is not a multiple of group.size={self.group.size}; "
                "a group must not be cut"
            )
        if self.method == "ppo" and self.dtype == "bfloat16":
            raise ValueError(
                "dtype=bfloat16 is not for method=ppo, which computes in float32: leave dtype out, or choose "
                "method=grpo or rloo"
            )
        if self.method == "ppo" and self.batch_size % self.ppo.minibatches:
            raise ValueError(f"ppo.minibatches={self.ppo.minibatches} does not divide batch_size={self.batch_size}")
        return self
