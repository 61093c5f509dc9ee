"""GRPO and RLOO by TRL: a group of answers to each prompt is its own baseline."""

from collections.abc import Callable, Sequence
from typing import Any

from argosy.models.load import Source
from argosy.posttraining.rl.config import RLHFConfig
from argosy.posttraining.rl.rewards import Prompt, WeightedRewards, in_order, make_samples
from argosy.posttraining.stage import Stage, Trained
from argosy.posttraining.trainer import run_trainer, trainer_arguments

NAMES = {
    "reward": "rlhf/reward", "kl": "rlhf/kl", "entropy": "rlhf/entropy", "completions/mean_length": "rlhf/length",
    "completions/clipped_ratio": "rlhf/truncated", "frac_reward_zero_std": "rlhf/groups_of_equal_reward"
}


def train_group_policy(
    stage: Stage[RLHFConfig], model: Any, prompts: Sequence[Prompt], rewards: WeightedRewards
) -> Trained:
    """Train `model` in place; its tokens are those of prompts and answers.

    A generation serves one optimizer step, so a resumable state never falls between a generation and its use."""
    from datasets import Dataset

    config = stage.config
    ordered = in_order(prompts, config, config.batch_size // config.group.size)
    trainer_class, arguments_class = _classes(config.method)
    trainer = trainer_class(
        model=model,
        reward_funcs=[_reward_function(name, rewards, ordered, stage.source) for name in rewards.weights],
        args=trainer_arguments(arguments_class, stage, **_settings(config, rewards)),
        train_dataset=Dataset.from_dict(
            {"prompt": [list(prompt.messages) for prompt in ordered], "index": list(range(len(ordered)))}
        ),
        processing_class=stage.source.tokenizer,
    )
    if trainer.ref_model is not None:  # which TRL has loaded itself, unchecked; `model` is the checkpoint still
        start = stage.source.causal_model() if config.lora else model  # adapters have other names
        trainer.ref_model.load_state_dict(start.state_dict())
    names = NAMES | {f"rewards/{name}/mean": f"rlhf/reward/{name}" for name in rewards.weights}
    return run_trainer(trainer, stage, names)


def _classes(method: str) -> tuple[Any, Any]:
    """Return TRL's trainer and its config."""
    if method == "grpo":
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

        return GRPOTrainer, GRPOConfig
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    return RLOOTrainer, RLOOConfig


def _settings(config: RLHFConfig, rewards: WeightedRewards) -> dict[str, Any]:
    return {
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


def _reward_function(
    name: str, rewards: WeightedRewards, prompts: Sequence[Prompt], source: Source
) -> Callable[..., Any]:
    def score(completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        asked = [prompts[at] for at in index]
        return rewards.rewards[name](make_samples(source.tokenizer, asked, completion_ids, source.stop_ids))

    score.__name__ = name
    return score
