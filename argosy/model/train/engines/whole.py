"""The whole model of an engine that holds parts of it: to generate with it, to evaluate it, to export it."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from argosy.model.train.engines.base import Engine


class WholeModel:
    """A plain model of transformers with the engine's weights.

    Where every process holds the whole model it is the engine's own; else a copy, which `refresh` brings up to date.

    Args:
        engine: whose weights it has.
        plain: makes the copy's model, on the engine's device; called only where the engine holds parts."""

    def __init__(self, engine: Engine, plain: Any) -> None:
        self._engine, self._plain = engine, plain
        self.shared = engine.holds_whole
        self._model: Any = engine.module.model if self.shared else plain()
        self._copy: Any = None

    def refresh(self) -> Any:
        """Return the model with the weights as they are now, in evaluation mode; every process calls this."""
        if not self.shared:
            own = dict(self._model.named_parameters())
            with torch.no_grad():
                if self._engine.config.pipeline_parallel > 1:
                    self._send(own)
                else:
                    for name, whole in self._engine.weights_by_name():
                        own[name.partition("/")[2]].copy_(whole())
        self._model.eval()
        return self._model

    def copied(self) -> Any:
        """Return a model with the weights as they are now, which updates leave alone until this is called again: to
        generate with while the engine trains. Weights that are frozen, as beside adapters, are not copied."""
        model = self.refresh()
        if not self.shared:
            return model
        if self._copy is None:
            self._copy = self._plain()
            _share(self._copy, model)
            self._copy.set_attn_implementation(model.config._attn_implementation)
        with torch.no_grad():
            for (_, own), (_, there) in zip(_tensors(self._copy), _tensors(model), strict=True):
                if own.data_ptr() != there.data_ptr():
                    own.copy_(there)
        if self._engine.group.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # another stream reads it
        self._copy.eval()
        return self._copy

    def _send(self, own: dict[str, Any]) -> None:
        """Take over what the first process collects of the stages of a pipeline, none of which has all."""
        weights = self._engine.weights() or {}
        for name, parameter in own.items():
            if name in weights:
                parameter.copy_(weights[name])
            dist.broadcast(parameter, 0)


def _tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters and buffers by name, tied ones once."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def _share(copy: Any, model: Any) -> None:
    """Give the parameters of `copy` the precision of the model's, and those that are frozen there their memory."""
    trained = dict(model.named_parameters())
    for name, own in copy.named_parameters():
        there = trained[name]
        own.data = there.data.clone() if there.requires_grad else there.data
        own.requires_grad_(there.requires_grad)  # by which torch chooses among kernels, whose last bits differ

