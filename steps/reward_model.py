"""Reward model: learns from preference pairs which of two answers is better.

python -m steps.reward_model --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from argosy.posttraining.export import PosttrainingOutputs
from argosy.posttraining.preferences import PreferenceConfig, read_pairs
from argosy.step import Step, StepContext


class RewardModelConfig(PreferenceConfig):
    """Config of the step."""


def run(config: RewardModelConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export for AutoModelForSequenceClassification."""
    from argosy.posttraining.process import prepare_process

    prepare_process(config.seed, config.threads)
    from argosy.posttraining.export import finish
    from argosy.posttraining.reward_model import load_reward_model, preference_metrics, train_reward_model
    from argosy.posttraining.source import open_source

    source = open_source("checkpoint", config.checkpoint)
    pairs = read_pairs(config, source, context.out)
    model = load_reward_model(source, config.seed)
    before = preference_metrics(model, pairs.heldout, source.pad_id, config.micro_batch_size)
    context.tracker.metrics(before, step=0)
    progress = train_reward_model(config, context, source, model, pairs.train)
    after = preference_metrics(model, pairs.heldout, source.pad_id, config.micro_batch_size)
    return finish(context, "reward_model", model, source, progress, before, after, pairs.rejects)


STEP = Step("reward_model", RewardModelConfig, run, version=2, needs="train")

if __name__ == "__main__":
    STEP.main()
