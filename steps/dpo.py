"""DPO: the policy learns from preference pairs directly; the alternative to reward model and RLHF.

python -m steps.dpo --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.export import PosttrainingOutputs
from argosy.step import Step, StepContext


class DPOConfig(PosttrainingConfig):
    """Config of the step.

    Attributes:
        beta: how strongly the policy is held to the reference (the checkpoint that it starts from).
        label_smoothing: assumed part of the pairs that are the wrong way round (conservative DPO).
    """

    preferences: str = "preferences.jsonl"
    heldout: str = "preferences_heldout.jsonl"
    beta: float = Field(default=0.1, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    learning_rate: float = Field(default=2e-4, gt=0)


def run(config: DPOConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.posttraining.process import prepare_process

    prepare_process(config.seed, config.threads)
    from argosy.posttraining.dpo import dpo_metrics, implicit_margins, train_dpo
    from argosy.posttraining.export import finish
    from argosy.posttraining.preferences import preference_parser
    from argosy.posttraining.records import Rejects, read_records
    from argosy.posttraining.source import open_source

    source = open_source("checkpoint", config.checkpoint)
    parse = preference_parser(source.tokenizer, config.max_length or source.context)
    rejects = Rejects()
    pairs = read_records(Path(config.data) / config.preferences, parse, rejects)
    heldout = read_records(Path(config.data) / config.heldout, parse, rejects)[: config.heldout_limit]
    rejects.write(context.out)
    model, reference = source.causal_model(), source.causal_model()

    def evaluate() -> dict[str, float]:
        return dpo_metrics(
            implicit_margins(model, reference, heldout, config.beta, source.pad_id, config.micro_batch_size)
        )

    before = evaluate()
    context.tracker.metrics(before, step=0)
    progress = train_dpo(config, context, source, model, pairs, config.beta, config.label_smoothing)
    return finish(context, "dpo", model, source, progress, before, evaluate(), rejects)


STEP = Step("dpo", DPOConfig, run)

if __name__ == "__main__":
    STEP.main()
