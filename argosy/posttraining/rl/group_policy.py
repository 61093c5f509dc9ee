"""GRPO and RLOO by TRL: a group of answers to each prompt is its own baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from argosy.models.load import Source
from argosy.posttraining.rl.config import RLHFConfig
from argosy.posttraining.rl.rewards import Prompt, WeightedRewards, in_order, make_samples
from argosy.posttraining.trainer import run_trainer, trainer_arguments
from argosy.step.contract import StepContext
from argosy.training.parallel import Group

NAMES = {
    "reward": "rlhf/reward",
    "kl": "rlhf/kl",
    "entropy": "rlhf/entropy",
    "completions/mean_length": "rlhf/length",
    "completions/clipped_ratio": "rlhf/truncated",
    "frac_reward_zero_std": "rlhf/groups_of_equal_reward",
}


def train_group_policy(
    config: RLHFConfig,
    context: StepContext,
    group: Group,
    source: Source,
    model: Any,
    prompts: Sequence[Prompt],
    rewards: WeightedRewards,
) -> tuple[int, int]:
    """Train `model` in place. Returns (optimizer steps, tokens of prompts and answers).

    A generation serves one optimizer step, so a resumable state never falls between a generation and its use.
    """
    from datasets import Dataset

    ordered = in_order(prompts, config, config.batch_size // config.group.size)
    trainer = _trainer_class(config.method)(
        model=model,
        reward_funcs=[_reward_function(name, rewards, ordered, source) for name in rewards.weights],
        args=_arguments(config, context, group, rewards),
        train_dataset=Dataset.from_dict(
            {"prompt": [list(prompt.messages) for prompt in ordered], "index": list(range(len(ordered)))}
        ),
        processing_class=source.tokenizer,
    )
    names = NAMES | {f"rewards/{name}/mean": f"rlhf/reward/{name}" for name in rewards.weights}
    return run_trainer(trainer, context, group, names)


def _trainer_class(method: str) -> Any:
    if method == "grpo":
        from trl.trainer.grpo_trainer import GRPOTrainer

        return GRPOTrainer
    from trl.trainer.rloo_trainer import RLOOTrainer

    return RLOOTrainer


def _arguments(config: RLHFConfig, context: StepContext, group: Group, rewards: WeightedRewards) -> Any:
    own: dict[str, Any] = {
        "include_num_input_tokens_seen": "no",  # TRL counts prompts and answers itself
        "num_generations": config.group.size,
        "max_completion_length": config.max_new_tokens,
        "temperature": config.temperature,
        "beta": config.kl_coef,
        "epsilon": config.clip,
        "reward_weights": list(rewards.weights.values()),
        "shuffle_dataset": False,
        "remove_unused_columns": False,
    }
    if config.method == "grpo":
        from trl.trainer.grpo_config import GRPOConfig

        return trainer_arguments(GRPOConfig, config, context, group, **own)
    from trl.trainer.rloo_config import RLOOConfig

    return trainer_arguments(RLOOConfig, config, context, group, **own)


def _reward_function(
    name: str, rewards: WeightedRewards, prompts: Sequence[Prompt], source: Source
) -> Callable[..., Any]:
    def score(completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        asked = [prompts[at] for at in index]
        return rewards.rewards[name](make_samples(source.tokenizer, asked, completion_ids, source.stop_ids))

    score.__name__ = name
    return score
