"""Long context: a checkpoint learns longer sequences, with slower rotations (RoPE).

    python -m steps.long_context --config '{"checkpoint": DIR, "tokenized": DIR, "sequence_length": 512}' --out DIR
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.schema import ADDED
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.model.train.checks import TRAINING, check_phase
from argosy.model.train.config import ContinueConfig, TrainOutputs

SCALE = "attention_scaling"  # attribute of transformers' rotary embeddings


class LongContextConfig(ContinueConfig):
    sequence_length: Annotated[int, Field(ge=2)] = 512
    """The new context, in tokens; the exports' max_position_embeddings."""
    rope_theta: Annotated[float, Field(gt=0)] = 100_000.0
    """The new base of the rotary position embedding."""
    rope_scaling: Annotated[Literal["none", "linear", "yarn"], ADDED] = "none"
    """Way to slow the rotations: none, the larger `rope_theta`; or a factor of new to old context for all of them
    (linear; Chen et al. 2023) or for the slow ones (yarn; Peng et al. 2023), and the base stays the checkpoint's."""

    def check_fields(self) -> None:
        if self.lora and not self.lora.merge:
            raise ValueError("lora.merge=false exports an adapter of the checkpoint, whose context is shorter: set "
                             "lora.merge=true")
        if self.lora and self.lora.kind == "qlora":
            raise ValueError("lora.kind=qlora has weights of 4 bits, whose rotations are not changed: set "
                             "lora.kind=lora")
        if self.rope_scaling != "none" and self.rope_theta != (own := type(self).model_fields["rope_theta"].default):
            raise ValueError(f"rope_scaling={self.rope_scaling} keeps the checkpoint's base, and rope_theta="
                             f"{self.rope_theta:g} is another: leave rope_theta at {own:g}, or set rope_scaling=none")

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

    model, tokenizer, tokens = load_start(config, config.checkpoint, context)
    longer = lengthen(model, config.sequence_length, config.rope_theta, config.rope_scaling)
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
        self._scale = _scale(model)
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
        scale = _scale(module)
        for each in module.modules():
            if hasattr(each, SCALE):  # of YaRN's cosines, which is no buffer
                setattr(each, SCALE, self._scale)
        self._scale = scale


def _scale(module: Any) -> float:
    """Return the factor of a model's cosines and sines."""
    return next((getattr(each, SCALE) for each in module.modules() if hasattr(each, SCALE)), 1.0)


STEP = Step("long_context", LongContextConfig, run, version=3, needs="train", makes_model=True,
            metrics=TRAINING, check=check_phase)

if __name__ == "__main__":
    main(STEP)
