"""Reward model: learns from preference pairs which of two answers is better.

python -m steps.reward_model --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from pathlib import Path

from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.export import PosttrainingOutputs
from argosy.step import Step, StepContext


class RewardModelConfig(PosttrainingConfig):
    """Config of the step: `preferences` to learn from, `heldout` to evaluate on (files of the data step)."""

    preferences: str = "preferences.jsonl"
    heldout: str = "preferences_heldout.jsonl"


def run(config: RewardModelConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export for AutoModelForSequenceClassification."""
    from argosy.posttraining.process import prepare_process

    prepare_process(config.seed, config.threads)
    from argosy.posttraining.export import finish
    from argosy.posttraining.preferences import preference_parser
    from argosy.posttraining.records import Rejects, read_records
    from argosy.posttraining.reward_model import load_reward_model, preference_metrics, train_reward_model
    from argosy.posttraining.source import open_source

    source = open_source("checkpoint", config.checkpoint)
    parse = preference_parser(source.tokenizer, config.max_length or source.context)
    rejects = Rejects()
    pairs = read_records(Path(config.data) / config.preferences, parse, rejects)
    heldout = read_records(Path(config.data) / config.heldout, parse, rejects)[: config.heldout_limit]
    rejects.write(context.out)
    model = load_reward_model(source, config.seed)
    before = preference_metrics(model, heldout, source.pad_id, config.micro_batch_size)
    context.tracker.metrics(before, step=0)
    progress = train_reward_model(config, context, source, model, pairs)
    after = preference_metrics(model, heldout, source.pad_id, config.micro_batch_size)
    return finish(context, "reward_model", model, source, progress, before, after, rejects)


STEP = Step("reward_model", RewardModelConfig, run)

if __name__ == "__main__":
    STEP.main()
