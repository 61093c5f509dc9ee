"""Engines that run the forward, the backward and the optimizer: one switch, `engine`, under one loop."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.engines.base import Engine
    from argosy.model.train.parallelism import Group


def make_engine(model: Any, channels: int, config: "TrainConfig", group: "Group",
                wrap: Callable[[Any], Any] | None = None) -> "Engine":
    """Return the engine that the config names, around `model`, whose losses are by `channels` channels.

    `wrap`: makes the module of another loss of the model, on its device (`Engine`); None: that of a language model."""
    from argosy.model.train.engines.fitting import settled
    from argosy.model.train.sizing.job import engine_of

    config = settled(config, model, group)
    if config.pipeline_parallel > 1 and config.engine.name in ("fsdp", "ddp"):
        from argosy.model.train.engines.fsdp import FSDPPipelineEngine

        return FSDPPipelineEngine(model, channels, config, group, wrap)
    if config.pipeline_parallel > 1:
        from argosy.model.train.engines.pipeline import PipelineEngine

        return PipelineEngine(model, channels, config, group, wrap)
    if config.engine.name in ("fsdp", "ddp") and group.world > 1:
        from argosy.model.train.engines.fsdp import FSDPEngine

        return FSDPEngine(model, channels, config, group, wrap)
    if engine_of(config.model_dump(), on_cpu=group.device.type == "cpu") == "zero":
        from argosy.model.train.engines.deepspeed import DeepSpeedEngine

        return DeepSpeedEngine(model, channels, config, group, wrap)
    if config.engine.name == "local":
        from argosy.model.train.engines.local import LocalEngine

        return LocalEngine(model, channels, config, group, wrap)
    from argosy.model.train.engines.torch import TorchEngine

    return TorchEngine(model, channels, config, group, wrap)
