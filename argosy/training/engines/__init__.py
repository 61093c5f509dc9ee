"""Engines that run the forward, the backward and the optimizer: one switch, `engine`, under one loop."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy.training.config import TrainConfig
    from argosy.training.engines.base import Engine
    from argosy.training.parallel import Group


def make_engine(
    model: Any, channels: int, config: "TrainConfig", group: "Group", wrap: Callable[[Any], Any] | None = None
) -> "Engine":
    """Return the engine that the config names, around `model`, whose losses are by `channels` channels.

    `wrap`: makes the module of another loss of the model, on its device (`Engine`); None: that of a language model."""
    from argosy.sizing.job import engine_of
    from argosy.training.engines.fitting import with_micro_batch

    config = with_micro_batch(config, model, group)
    if config.pipeline_parallel > 1:
        from argosy.training.engines.pipeline import PipelineEngine

        return PipelineEngine(model, channels, config, group, wrap)
    if config.engine in ("fsdp", "ddp") and group.world > 1:
        from argosy.training.engines.fsdp import FSDPEngine

        return FSDPEngine(model, channels, config, group, wrap)
    if engine_of(config.model_dump(), on_cpu=group.device.type == "cpu") == "deepspeed":
        from argosy.training.engines.deepspeed import DeepSpeedEngine

        return DeepSpeedEngine(model, channels, config, group, wrap)
    from argosy.training.engines.torch import TorchEngine

    return TorchEngine(model, channels, config, group, wrap)
