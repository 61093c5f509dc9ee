"""Long context: a checkpoint learns longer sequences, with a larger RoPE base.

Xiong et al. 2023, "Effective long-context scaling of foundation models".

    python -m steps.long_context --config '{"checkpoint": DIR, "tokenized": DIR, "sequence_length": 512}' --out DIR
"""

from typing import Annotated, Any

from pydantic import Field

from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.model.train.checks import TRAINING, check_phase
from argosy.model.train.config import ContinueConfig, TrainConfig, TrainOutputs


class LongContextConfig(ContinueConfig):
    sequence_length: Annotated[int, Field(ge=2)] = 512
    """The new context, in tokens; the exports' max_position_embeddings."""
    rope_theta: Annotated[float, Field(gt=0)] = 100_000.0
    """The new base of the rotary position embedding."""

    def context(self) -> int:
        return self.sequence_length


class LongContextOutputs(TrainOutputs):
    position_nats: dict[str, dict[str, float]]
    """Held-out nats by range of positions, over documents that fill the new context; `before` is the checkpoint without
    any change, at the new length."""


def run(config: LongContextConfig, context: StepContext) -> LongContextOutputs:
    """Lengthen the checkpoint and continue it."""
    from argosy.core.step.process import make_deterministic

    make_deterministic(config.seed, config.threads)
    from argosy.model.train.phase import lengthen, load_start, train_phase

    model, tokenizer, tokens = load_start(config.checkpoint)
    before = _position_nats(model, config, context)
    model = lengthen(model, config.sequence_length, config.rope_theta)
    outputs = train_phase(config, context, "long_context", model, tokenizer, tokens)
    after = _position_nats(model, config, context)
    for step, nats in ((0, before), (config.steps, after)):
        context.tracker.metrics({f"heldout/nats_at/{name}": value for name, value in nats.items()}, step=step)
    return LongContextOutputs(**outputs.model_dump(), position_nats={"before": before, "after": after})


def _position_nats(model: Any, config: TrainConfig, context: StepContext) -> dict[str, float]:
    import torch

    from argosy.corpus.tokens.reader import read_channels
    from argosy.model.train.heldout import HeldoutLoss
    from argosy.model.train.layers.loss import LossModule

    heldout = HeldoutLoss(read_channels(config.tokenized, "heldout"), config.sequence_length, config.heldout_tokens)
    model = model.to(context.device)
    with context.progress.during("held-out loss by position"):
        return heldout.by_position(LossModule(model, 1, getattr(torch, config.dtype), 0.0, config.sequence_length))


STEP = Step("long_context", LongContextConfig, run, version=3, needs="train", makes_model=True,
            metrics=TRAINING, check=check_phase)

if __name__ == "__main__":
    main(STEP)
