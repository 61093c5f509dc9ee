"""Reward model: learns from preference pairs which of two answers is better.

python -m steps.reward_model --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from argosy.posttraining.config import PosttrainingOutputs, PreferenceConfig
from argosy.step.command import main
from argosy.step.contract import Step, StepContext


class RewardModelConfig(PreferenceConfig):
    """Config of the step."""


def run(config: RewardModelConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export for AutoModelForSequenceClassification."""
    from argosy.posttraining.stage import begin, finish

    source, group = begin(config, context)
    from argosy.posttraining.preference import load_reward_model, preference_metrics, read_pairs, train_reward_model

    pairs = read_pairs(config, source, context)
    model = load_reward_model(source, config.seed)
    before = preference_metrics(model, pairs.heldout, source.pad_id, config.micro_batch_size)
    context.tracker.metrics(before, step=0)
    progress = train_reward_model(config, context, group, source, model, pairs.train)
    after = preference_metrics(model, pairs.heldout, source.pad_id, config.micro_batch_size)
    return finish(context, "reward_model", model, source, progress, before, after, pairs.rejects)


STEP = Step("reward_model", RewardModelConfig, run, version=2, needs="train")

if __name__ == "__main__":
    main(STEP)
