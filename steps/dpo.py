"""DPO: the policy learns from preference pairs directly; the alternative to reward model and RLHF.

python -m steps.dpo --config '{"checkpoint": SFT_DIR, "data": DIR}' --out DIR"""

from typing import Any

from pydantic import Field

from argosy.config.schema import Rate
from argosy.posttraining.config import PosttrainingOutputs, PreferenceConfig
from argosy.step.command import main
from argosy.step.contract import Step, StepContext


class DPOConfig(PreferenceConfig):
    """Config of the step."""

    beta: float = Field(default=0.1, gt=0)
    """Strength that holds the policy to the reference (the checkpoint that it starts from)."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Assumed part of the pairs that are the wrong way round (conservative DPO)."""
    learning_rate: Rate = 2e-4


def run(config: DPOConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.posttraining.stage import begin

    stage = begin(config, context)
    from argosy.posttraining.preference import dpo_metrics, implicit_margins, pair_logprobs, read_pairs, train_dpo

    pairs, heldout = read_pairs(stage)
    model, reference = stage.source.causal_model(), stage.source.causal_model()
    batches = (stage.source.pad_id, config.micro_batch_size)
    before = pair_logprobs(reference, heldout, *batches)

    def evaluate(model: Any) -> dict[str, float]:
        return dpo_metrics(implicit_margins(pair_logprobs(model, heldout, *batches), before, config.beta))

    settings = (config.beta, config.label_smoothing)
    return stage.run("dpo", model, evaluate, lambda: train_dpo(stage, model, reference, pairs, *settings))


STEP = Step("dpo", DPOConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
