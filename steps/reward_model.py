"""Reward model: learns from preference pairs which of two answers is better.

python -m steps.reward_model --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR"""

from typing import Any

from argosy.posttraining.config import PosttrainingOutputs, PreferenceConfig
from argosy.step.command import main
from argosy.step.contract import Step, StepContext


class RewardModelConfig(PreferenceConfig):
    """Config of the step."""


def run(config: RewardModelConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export for AutoModelForSequenceClassification."""
    from argosy.posttraining.stage import begin

    stage = begin(config, context)
    from argosy.posttraining.preference import load_reward_model, preference_metrics, read_pairs, train_reward_model

    pairs, heldout = read_pairs(stage)
    model = load_reward_model(stage.source, config.seed)

    def evaluate(model: Any) -> dict[str, float]:
        return preference_metrics(model, heldout, stage.source.pad_id, config.micro_batch_size)

    return stage.run("reward_model", model, evaluate, lambda: train_reward_model(stage, model, pairs))


STEP = Step("reward_model", RewardModelConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
