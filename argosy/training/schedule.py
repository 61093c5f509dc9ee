"""Learning-rate schedules: the share of the peak at an optimizer step, a pure function of the step."""

from __future__ import annotations

import math

from argosy.training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """The learning rate of step `step` (0, 1, ..., config.steps - 1).

    Linear warm-up, then the decay: no step is wasted on a rate of 0 at either end, so it equals transformers'
    schedules of `warmup + 1` and `steps + 1` steps at `step + 1`.
    """
    warmup = min(math.ceil(config.warmup_tokens / config.tokens_per_step), config.steps - 1)
    if step < warmup:
        return config.learning_rate * (step + 1) / (warmup + 1)
    progress = (step - warmup) / (config.steps - warmup)  # in [0, 1)
    floor = config.final_learning_rate
    return config.learning_rate * (floor + (1 - floor) * _decay(config, progress))


def _decay(config: TrainConfig, progress: float) -> float:
    """From 1 down to 0 as `progress` goes from 0 to 1."""
    if config.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if config.schedule == "linear":
        return 1 - progress
    if config.schedule == "wsd":  # Hu et al. 2024, MiniCPM: warm-up, stable, decay
        return min(1.0, (1 - progress) / config.decay_fraction)
    return 1.0
