"""Plain torch: gradient accumulation, one sum over all processes, clipping and the optimizer."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from argosy.model.train.config import TrainConfig
from argosy.model.train.engines.base import Engine, Wrap
from argosy.model.train.engines.parts import WEIGHT, Parts, Whole
from argosy.model.train.engines.scaling import LOSS_SCALE, LossScale
from argosy.model.train.optim import make_optimizer, make_state, plain, set_rate, wrapped
from argosy.model.train.parallel import Group


class TorchEngine(Engine):
    """Every process holds the model; gradients are summed after the last backward, in one order."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group, wrap: Wrap = None) -> None:
        super().__init__(model, channels, config, group, wrap)
        self._optimizer = make_optimizer(self._wrap(model), config)
        self._scale = LossScale(group.device) if config.dtype == "float16" else None

    def _wrap(self, model: Any) -> Any:
        """Share the module out over the processes; returns what the optimizer updates of it."""
        return model

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        loss: Tensor
        sums: Tensor
        loss, sums = self.module(*part)
        loss = loss / targets
        (self._scale.scaled(loss) if self._scale else loss).backward()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        named = dict(self._named)
        self._sum_gradients(named)
        self.clock.lap("sync")
        norm, finite = self._clip(named), True
        if self._scale:
            norm, finite = self._scale.unscale([each.grad for each in named.values() if each.grad is not None], norm)
        if finite:
            set_rate(self._optimizer, learning_rate)
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def measures(self) -> dict[str, float]:
        """Return the scale of the loss, where it has one."""
        return self._scale.measures() if self._scale else {}

    def _sum_gradients(self, named: dict[str, Any]) -> None:
        if self.mesh.divides:
            self.shares.sum_gradients(named)
        else:
            self.group.sum_gradients(named.values())

    def _clip(self, named: dict[str, Any]) -> Tensor:
        most = self.config.max_grad_norm * (self._scale.value if self._scale else 1.0)
        if self.mesh.divides:
            return self.shares.clip(named, most)
        norm = torch.nn.utils.get_total_norm([each.grad for each in named.values() if each.grad is not None],
                                             foreach=True)
        alone = self.group.world == 1 and self.group.device.type == "cpu"
        if not (alone and most / (norm + 1e-6) >= 1):  # which would multiply by 1
            torch.nn.utils.clip_grads_with_norm_(named.values(), most, norm, foreach=True)
        return norm

    def _whole(self, tensor: Tensor, name: str) -> Tensor:
        return self.shares.whole(tensor, name) if tensor.ndim else tensor

    def _like(self, tensor: Tensor, parameter: Tensor, name: str) -> Tensor:
        """Return of a whole tensor what this process holds of `parameter`."""
        return self.shares.part(tensor, name).to(parameter.device) if tensor.ndim else tensor.to(parameter.device)

    def _state(self) -> Iterator[tuple[str, Whole]]:
        yield from self.weights_by_name()
        if self._scale:
            yield LOSS_SCALE, self._scale.state
        for name, parameter in self._named:
            for kind, value in sorted(plain(self._optimizer.state[parameter]).items()):
                yield f"{kind}/{name}", partial(self._whole, value, name)

    def _restore(self, parts: Parts) -> None:
        if self._scale and LOSS_SCALE in parts:
            self._scale.restore(parts[LOSS_SCALE])
        for name, parameter in self._named:
            parameter.copy_(self._like(parts[f"{WEIGHT}/{name}"], parameter, name))
        if self.config.optimizer == "adamw_8bit":
            make_state(self._optimizer)
        for name, parameter in self._named:
            kept = {kind: self._like(tensor, parameter, name) for kind, tensor in parts.of(name).items()}
            self._optimizer.state[parameter] = wrapped(self._optimizer.state[parameter], kept)
