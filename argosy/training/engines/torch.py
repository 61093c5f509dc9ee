"""Plain torch: gradient accumulation, one sum over all processes, clipping and the optimizer."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from argosy.training.config import TrainConfig
from argosy.training.engines.base import Engine
from argosy.training.engines.parts import WEIGHT, Parts, Whole
from argosy.training.optim import make_optimizer
from argosy.training.parallel import Group


class TorchEngine(Engine):
    """Every process holds the model; gradients are summed after the last backward, in one order."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group) -> None:
        super().__init__(model, channels, config, group)
        self._wrap()
        self._optimizer = make_optimizer(model, config)

    def _wrap(self) -> None:
        """Share the module out over the processes, before the optimizer is made of its parameters."""

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        loss: Tensor
        sums: Tensor
        loss, sums = self.module(*part)
        (loss / targets).backward()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        parameters = [parameter for _, parameter in self._named]
        self._sum_gradients(parameters)
        norm = self._clip(parameters)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def _sum_gradients(self, parameters: list[Any]) -> None:
        self.group.sum_gradients(parameters)

    def _clip(self, parameters: list[Any]) -> Tensor:
        return torch.nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm, foreach=True)

    def _whole(self, tensor: Tensor) -> Tensor:
        return tensor

    def _like(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """Return of a whole tensor what this process holds of `parameter`."""
        return tensor.to(parameter.device)

    def _state(self) -> Iterator[tuple[str, Whole]]:
        yield from self._weights_by_name()
        for name, parameter in self._named:
            for kind, value in sorted(self._optimizer.state[parameter].items()):
                yield f"{kind}/{name}", partial(self._whole, value)

    def _restore(self, parts: Parts) -> None:
        for name, parameter in self._named:
            parameter.copy_(self._like(parts[f"{WEIGHT}/{name}"], parameter))
            self._optimizer.state[parameter] = {
                kind: self._like(tensor, parameter) if tensor.ndim else tensor.to(parameter.device)
                for kind, tensor in parts.of(name).items()}
