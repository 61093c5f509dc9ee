"""The whole model of an engine that holds parts of it: to generate with it, to evaluate it, to export it."""

from typing import Any

import torch
import torch.distributed as dist

from argosy.training.engines.base import Engine


class WholeModel:
    """A plain model of transformers with the engine's weights.

    Where every process holds the whole model it is the engine's own; else a copy, which `refresh` brings up to date.

    Args:
        engine: whose weights it has.
        plain: makes the copy's model, on the engine's device; called only where the engine holds parts."""

    def __init__(self, engine: Engine, plain: Any) -> None:
        self._engine = engine
        self.shared = engine.holds_whole
        self._model: Any = engine.module.model if self.shared else plain()

    def refresh(self) -> Any:
        """Return the model with the weights as they are now, in evaluation mode; every process calls this."""
        if not self.shared:
            own = dict(self._model.named_parameters())
            with torch.no_grad():
                self._send(own) if self._engine.config.pipeline_parallel > 1 else self._gather(own)
        self._model.eval()
        return self._model

    def _gather(self, own: dict[str, Any]) -> None:
        for name, whole in self._engine.weights_by_name():
            own[name.partition("/")[2]].copy_(whole())

    def _send(self, own: dict[str, Any]) -> None:
        """Take over what the first process collects of the stages of a pipeline, none of which has all."""
        weights = self._engine.weights() or {}
        for name, parameter in own.items():
            if name in weights:
                parameter.copy_(weights[name])
            dist.broadcast(parameter, 0)
