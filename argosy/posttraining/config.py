"""What every post-training step's config has in common."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from argosy.config import RUNTIME, Config, Rate, Seed, Upstream

PositiveInt = Annotated[int, Field(gt=0)]


class PosttrainingConfig(Config):
    """Data, optimiser and bookkeeping of one post-training step.

    Attributes:
        checkpoint: directory of the training step that this one continues; its `final` export is loaded.
        data: directory of the data step.
        epochs: passes over the data.
        max_steps: above 0, optimiser steps to train for, in as many passes as they take; `epochs` does not count then.
        batch_size: examples (conversations, pairs) an optimiser step, on all devices together.
        micro_batch_size: examples that are in memory at once on a device; at most `batch_size`.
        max_length: longest example in tokens; 0 means the checkpoint's context.
        warmup_ratio: part of the steps over which the learning rate rises from 0.
        threads: of torch on a CPU, whatever cores there are: they decide the last bits of sums.
        dtype: of matrix products; weights and optimizer are float32 either way. None is the method's own: float32 for
            ppo, bfloat16 for all others.
        heldout_limit: how many held-out records are evaluated before and after.
        log_every, save_every: in optimiser steps; a resumable state is kept at each `save_every`.
    """

    checkpoint: Upstream = ""
    data: Upstream = ""
    seed: Seed = 0
    epochs: float = Field(default=1.0, gt=0)
    max_steps: int = Field(default=0, ge=0)
    batch_size: PositiveInt = 32
    micro_batch_size: PositiveInt = 32
    max_length: int = Field(default=0, ge=0)
    learning_rate: Rate = 1e-3
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "cosine"
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    threads: PositiveInt = 1
    dtype: Literal["float32", "bfloat16"] | None = None
    heldout_limit: PositiveInt = 128
    log_every: Annotated[PositiveInt, RUNTIME] = 5
    save_every: Annotated[PositiveInt, RUNTIME] = 50

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.batch_size % self.micro_batch_size:
            raise ValueError(
                f"micro_batch_size={self.micro_batch_size} does not divide batch_size={self.batch_size}; "
                "choose a divisor"
            )
        if self.save_every % self.log_every:
            raise ValueError(
                f"save_every={self.save_every} is not a multiple of log_every={self.log_every}: "
                "a resumed run would average its metrics over other steps"
            )
        return self
