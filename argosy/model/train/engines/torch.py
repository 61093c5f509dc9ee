"""Plain torch: gradient accumulation, one sum over all processes, clipping, the optimizer, the scale of float16."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from argosy.model.train.config import TrainConfig
from argosy.model.train.engines.base import Engine, Wrap
from argosy.model.train.engines.parts import WEIGHT, Held, Parts, everywhere
from argosy.model.train.optim import make_optimizer, make_state, plain, set_rate, wrapped
from argosy.model.train.optim.narrow import AdamWBF16
from argosy.model.train.parallelism import Group, local_part
from argosy.model.weights.drawn import Numbers


class TorchEngine(Engine):
    """Every process holds the model; gradients are summed after the last backward, in one order."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group, wrap: Wrap = None) -> None:
        super().__init__(model, channels, config, group, wrap)
        updated = self._wrap(model)
        self._fill(model)
        self._optimizer = make_optimizer(updated, config)
        if isinstance(self._optimizer, AdamWBF16):
            self._optimizer.located = {each: (name, *self._place(each, name)) for name, each in self._named}
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
        with self._compared(named.values()):
            if finite:
                set_rate(self._optimizer, learning_rate)
                self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    @property
    def alone(self) -> tuple[str, ...]:
        return (*super().alone, "backward") if self.holds_whole else super().alone

    def measures(self) -> dict[str, float]:
        return self._scale.measures() if self._scale else {}

    def _sum_gradients(self, named: dict[str, Any]) -> None:
        if self.mesh.divides:
            self.shares.sum_gradients(named)
        else:
            self.group.sum_gradients(named.values())

    def _clip(self, named: dict[str, Any]) -> Tensor:
        most = self.config.max_grad_norm * (self._scale.value if self._scale else 1.0)
        if self.mesh.divides or self.config.optimizer == "adamw_bf16":  # whose norms are to be float32
            return self.shares.clip(named, most)
        norm = torch.nn.utils.get_total_norm([each.grad for each in named.values() if each.grad is not None],
                                             foreach=True)
        alone = self.group.world == 1 and self.group.device.type == "cpu"
        if not (alone and most / (norm + 1e-6) >= 1):  # which would multiply by 1
            torch.nn.utils.clip_grads_with_norm_(named.values(), most, norm, foreach=True)
        return norm

    def _whole(self, tensor: Tensor, name: str) -> Tensor:
        return self.shares.whole(tensor, name) if tensor.ndim else tensor

    def _take(self, parameter: Any, name: str, numbers: Numbers, key: str) -> None:
        here = local_part(parameter.detach())
        here.copy_(numbers.read(key, self._place(parameter, name).start, tuple(here.shape)))

    def _kept(self, parameter: Any, name: str, parts: Parts, key: str) -> Tensor:
        """Read what the optimizer kept of a weight, as this process holds it."""
        place = self._place(parameter, name)
        if parts.shape(key) != place.shape:  # one number, or one for each row
            return parts[key].to(parameter.device)
        here = parts.read(key, place.start, tuple(local_part(parameter.detach()).shape)).to(parameter.device)
        return self._like(here, parameter)

    def _like(self, here: Tensor, parameter: Any) -> Tensor:
        """Return what this process holds of a tensor in the form that `parameter` has."""
        return here

    def _state(self) -> Iterator[Held]:
        if self._scale:
            yield LOSS_SCALE, everywhere((3,)), self._scale.state
        for name, parameter in self._named:
            yield f"{WEIGHT}/{name}", self._place(parameter, name), partial(local_part, parameter)
            for kind, value in sorted(plain(self._optimizer.state[parameter]).items()):
                like = value.shape == parameter.shape
                place = self._place(value, name) if like else everywhere(value.shape)
                yield f"{kind}/{name}", place, partial(local_part, value)

    def _restore(self, parts: Parts, *, weights: bool) -> None:
        if self._scale and LOSS_SCALE in parts:
            self._scale.restore(parts[LOSS_SCALE])
        for name, parameter in self._named if weights else ():
            self._take(parameter, name, parts, f"{WEIGHT}/{name}")
        if self.config.optimizer == "adamw_8bit":
            make_state(self._optimizer)
        for name, parameter in self._named:
            kept = {kind: self._kept(parameter, name, parts, f"{kind}/{name}") for kind in parts.kinds(name)}
            self._optimizer.state[parameter] = wrapped(self._optimizer.state[parameter], kept)


LOSS_SCALE = "loss_scale/state"  # its name in a state


class LossScale:
    """The factor of the loss in float16, whose small gradients would be zero (Micikevicius et al. 2018): halved when a
    gradient overflows, doubled after 2,000 steps without.

    torch's GradScaler decides the scale. It is shown the norm of the gradients over all processes and not each of them:
    the norm is finite where all of them are, so that every process skips the same steps, whatever it holds of them."""

    def __init__(self, device: torch.device) -> None:
        self._scaler = torch.amp.GradScaler(device.type)
        self._norm = nn.Parameter(torch.zeros((), device=device))
        self._shown = torch.optim.SGD([self._norm], lr=0.0)
        self.skipped = 0

    def scaled(self, loss: Tensor) -> Tensor:
        found: Tensor = self._scaler.scale(loss)
        return found

    @property
    def value(self) -> float:
        return self._scaler.get_scale()

    def unscale(self, gradients: Sequence[Tensor], norm: Tensor) -> tuple[Tensor, bool]:
        """Divide the gradients by the scale, and choose the next one; returns the norm without the scale, and whether
        the optimizer may step. `norm`: over all processes, before it was clipped to a norm times the scale."""
        factor = 1 / self.value
        self._norm.grad = norm.detach().float().clone()
        self._scaler.unscale_(self._shown)
        self._scaler.step(self._shown)
        self._scaler.update()
        finite = bool(self._norm.grad.isfinite())
        if finite:
            torch._foreach_mul_(list(gradients), factor)
        else:
            self.skipped += 1
            print(f"a step is skipped, as its gradient is not finite in float16; the loss is scaled by {self.value:g} "
                  "from now on", flush=True)
        return norm * factor, finite

    def measures(self) -> dict[str, float]:
        return {"train/loss_scale": self.value, "train/skipped_steps": float(self.skipped)}

    def state(self) -> Tensor:
        """Return what `restore` takes, (3,): the scale, the steps since it changed, the steps skipped."""
        state = self._scaler.state_dict()
        return torch.tensor([state["scale"], state["_growth_tracker"], self.skipped], dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        scale, since, skipped = state.tolist()
        kept: dict[str, Any] = self._scaler.state_dict()
        self._scaler.load_state_dict({**kept, "scale": scale, "_growth_tracker": int(since)})
        self.skipped = int(skipped)
