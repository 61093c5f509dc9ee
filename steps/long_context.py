"""Long context: a checkpoint learns longer sequences, with a larger RoPE base.

Xiong et al. 2023, "Effective long-context scaling of foundation models".

    python -m steps.long_context --config '{"checkpoint": DIR, "tokenized": DIR, "sequence_length": 512}' --out DIR
"""

from typing import Annotated, Any

from pydantic import Field

from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.model.train.checks import TRAINING, check_phase
from argosy.model.train.config import ContinueConfig, TrainOutputs


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
    make_deterministic(config.seed, config.threads)
    from argosy.model.train.phase import lengthen, load_start, train_phase

    model, tokenizer, tokens = load_start(config.checkpoint, whole=config.processes == 1)
    longer = lengthen(model, config.sequence_length, config.rope_theta)
    measured = _Positions(config, context, model)
    outputs = train_phase(config, context, "long_context", longer, tokenizer, tokens, measured)
    for step, nats in ((0, measured.nats["before"]), (config.steps, measured.nats["after"])):
        context.tracker.metrics({f"heldout/nats_at/{name}": value for name, value in nats.items()}, step=step)
    return LongContextOutputs(**outputs.model_dump(), position_nats=measured.nats)


class _Positions:
    """Measures held-out nats by position `before` and `after` training.

    `model`: the one that is not lengthened, whose rotations `before` has."""

    def __init__(self, config: LongContextConfig, context: StepContext, model: Any) -> None:
        self._config, self._context = config, context
        self._rotations = dict(model.get_decoder().named_buffers())
        self.nats: dict[str, dict[str, float]] = {}

    def __call__(self, when: str, module: Any) -> None:
        from argosy.corpus.tokens.reader import read_channels
        from argosy.model.train.heldout import HeldoutLoss

        heldout = HeldoutLoss(read_channels(self._config.tokenized, "heldout"), self._config.sequence_length,
                              self._config.heldout_tokens)
        if when == "before":
            self._exchange(module)
        with self._context.progress.during("held-out loss by position"):
            self.nats[when] = heldout.by_position(module)
        if when == "before":
            self._exchange(module)

    def _exchange(self, module: Any) -> None:
        """Exchange the rotations of the module with those that are kept."""
        for name, buffer in module.named_buffers():
            for own, kept in self._rotations.items():
                if name.endswith(f".{own}"):
                    here = buffer.clone()
                    buffer.copy_(kept)
                    kept.copy_(here)


STEP = Step("long_context", LongContextConfig, run, version=3, needs="train", makes_model=True,
            metrics=TRAINING, check=check_phase)

if __name__ == "__main__":
    main(STEP)
