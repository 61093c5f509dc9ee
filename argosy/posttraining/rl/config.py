"""Config of reinforcement learning: shared by GRPO, RLOO and PPO, and of each alone."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from argosy.config.schema import ADDED, Config, Rate, Upstream
from argosy.posttraining.config import PositiveInt, PosttrainingConfig


class GroupConfig(Config):
    """Config of GRPO and RLOO."""

    size: int = Field(default=8, ge=2)
    """Answers to each prompt; their mean reward is the baseline."""


class PPOConfig(Config):
    """Config of PPO (Schulman et al. 2017), with the details of Huang et al. 2024 (The N+ Implementation Details of
    RLHF)."""

    epochs: PositiveInt = 1
    """Passes over each batch of answers."""
    minibatches: PositiveInt = 2
    """Parts of a pass, with an optimizer step each."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """Lambda of the generalised advantage estimation."""
    value_coef: float = Field(default=0.5, ge=0)
    """Weight of the value loss."""
    value_clip: float = Field(default=0.2, gt=0)
    """Largest move of a value from its old one."""
    value_learning_rate: Rate = 1e-3
    """Learning rate of the value model."""
    kl_target: float = Field(default=0.0, ge=0)
    """Nats a token that the KL coefficient is steered to (Ziegler et al. 2019); 0 keeps it fixed."""
    kl_horizon: PositiveInt = 10_000
    """Answers over which the coefficient adapts."""
    whiten_rewards: bool = False
    """Scale the rewards of a batch to variance 1, keeping their mean."""
    missing_stop_penalty: float = Field(default=1.0, ge=0)
    """Deduction from the reward of an answer that was cut at the limit."""


class RLHFConfig(PosttrainingConfig):
    """Config of reinforcement learning from rewards of sampled answers."""

    reward_model: Upstream = ""
    """Directory of the reward_model step; needed if `rewards` has "model"."""
    prompts: str = "prompts.jsonl"
    """File of the data step; `heldout_limit` of its prompts, at most a quarter, are held out."""
    method: Literal["ppo", "grpo", "rloo"] = "ppo"
    """PPO, GRPO (Shao et al. 2024) or RLOO (Ahmadian et al. 2024)."""
    rewards: dict[str, float] = Field(default={"accept": 1.0, "format": 0.2, "model": 0.1}, min_length=1)
    """Weight of each reward; the names are the modules of argosy.posttraining.rl.rewards."""
    reward_caution: Annotated[float, Field(ge=0), ADDED] = 0.0
    """Standard deviations over a reward model's heads that are taken off their mean (Coste et al. 2024)."""
    batch_size: PositiveInt = 64
    """Answers of an optimizer step (ppo: of a rollout), over all processes."""
    micro_batch_size: PositiveInt = 64
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of matrix products, in sampling and in training: in fewer bits the two differ more."""
    learning_rate: Rate = 3e-4
    max_new_tokens: PositiveInt = 32
    """Tokens of the longest answer."""
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of the sampling, in training and in the sampled evaluation."""
    kl_coef: float = Field(default=0.05, ge=0)
    """Strength that holds the policy to the reference (the checkpoint that it starts from)."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """Largest deviation of the probability ratio from 1."""
    group: GroupConfig = GroupConfig()
    ppo: PPOConfig = PPOConfig()

    @model_validator(mode="after")
    def _check_rl(self) -> Self:
        from argosy.posttraining.rl.rewards import reward_names

        unknown = sorted(set(self.rewards) - set(reward_names()))
        if unknown:
            raise ValueError(f"rewards has unknown names {unknown}; allowed: {', '.join(reward_names())}")
        if self.method != "ppo" and self.micro_batch % self.group.size:
            raise ValueError(
                f"micro_batch_size={self.micro_batch} is not a multiple of group.size={self.group.size}; "
                "a group must not be cut"
            )
        if self.method == "ppo" and self.batch_size // self.processes % self.ppo.minibatches:
            of = f" / processes={self.processes}" if self.processes > 1 else ""
            raise ValueError(f"ppo.minibatches={self.ppo.minibatches} does not divide batch_size={self.batch_size}{of}")
        return self
