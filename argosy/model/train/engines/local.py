"""Groups of processes that train apart and meet now and then: DiLoCo (Douillard et al. 2023), local SGD with a Nesterov
step on the mean of what the groups have learnt."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.core.errors import StepError
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.engine import Local
from argosy.model.train.engines.base import Wrap
from argosy.model.train.engines.parts import WEIGHT, Held, Parts, everywhere
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.parallelism import Group

_STEPS, _MOMENTUM = "rounds@/steps", "rounds@"  # names in a state; other engines leave those with @ alone


class LocalEngine(TorchEngine):
    """TorchEngine in each group, which has its own moments; after `every` steps, and after the last, all groups go on
    from one model. Between groups a round sends the weights once; each step sends the sums of its losses.

    The model of the last round is what is evaluated and exported, and states are written at the end of a round."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group, wrap: Wrap = None) -> None:
        super().__init__(model, channels, config, group, wrap)
        assert isinstance(config.engine, Local)
        self._options = config.engine
        size = group.world // self._options.groups
        self._number, ranks = group.rank // size, list(range(group.world))
        inside = [dist.new_group(ranks[at : at + size]) for at in range(0, group.world, size)]
        across = [dist.new_group(ranks[at::size]) for at in range(size)]  # the same part of each group
        self._inside, self._across = (inside[self._number] if size > 1 else None), across[group.rank % size]
        self._met = [each.detach().clone() for _, each in self._named]
        self._momentum = [torch.zeros_like(each) for each in self._met]
        self._steps = 0

    @property
    def settled(self) -> bool:
        apart = self._steps - self._options.after
        return apart <= 0 or apart % self._options.every == 0 or self._steps == self.config.steps

    @property
    def _partners(self) -> Any:
        """The processes whose samples make this step's gradient; None where this one is alone in its group."""
        return dist.group.WORLD if self._steps < self._options.after else self._inside

    def _over_samples(self, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        if (partners := self._partners) is not None:
            dist.all_reduce(total, group=partners)
        return total

    def _sum_gradients(self, named: dict[str, Any]) -> None:
        if (partners := self._partners) is not None:
            self.group.sum_gradients(named.values(), partners)

    def _update(self, learning_rate: float) -> Tensor:
        norm = super()._update(learning_rate)
        self._steps += 1
        if self._steps <= self._options.after:
            torch._foreach_copy_(self._met, [each.detach() for _, each in self._named])
        elif self.settled:
            self._meet()
        return self.group.sum(norm) / self.group.world

    @torch.no_grad()
    def _meet(self) -> None:
        own = [each.detach() for _, each in self._named]
        flat = torch.cat([each.flatten() for each in own])
        dist.all_reduce(flat, group=self._across)
        means = (flat / self._options.groups).split([each.numel() for each in own])
        moved = [met - mean.view_as(met) for met, mean in zip(self._met, means, strict=True)]
        torch._foreach_mul_(self._momentum, self._options.momentum)
        torch._foreach_add_(self._momentum, moved)
        torch._foreach_add_(moved, self._momentum, alpha=self._options.momentum)
        torch._foreach_add_(self._met, moved, alpha=-self._options.rate)
        torch._foreach_copy_(own, self._met)

    @contextmanager
    def as_agreed(self) -> Iterator[None]:
        own = [] if self.settled else [each.detach().clone() for _, each in self._named]
        with torch.no_grad():
            if own:
                torch._foreach_copy_([each for _, each in self._named], self._met)
            yield
            if own:
                torch._foreach_copy_([each for _, each in self._named], own)

    def _own(self, kind: str, name: str) -> str:
        """Name this group's own tensor of the optimizer; engines that have no groups read those of the first."""
        return f"{kind}@{self._number}/{name}" if self._number else f"{kind}/{name}"

    def _state(self) -> Iterator[Held]:
        yield _STEPS, everywhere((1,)), lambda: torch.tensor([float(self._steps)])
        for (name, _), momentum in zip(self._named, self._momentum, strict=True):
            yield f"{_MOMENTUM}/{name}", everywhere(momentum.shape), partial(torch.Tensor.detach, momentum)
        for name, place, make in super()._state():
            kind, _, weight = name.partition("/")
            yield (name if kind == WEIGHT else self._own(kind, weight)), place, make

    def _restore(self, parts: Parts, *, weights: bool) -> None:
        if weights and _STEPS not in parts:
            raise StepError("engine=local goes on from its own states alone, which end a round, and this one is of "
                            "another engine: leave resume out, or keep that engine")
        super()._restore(parts, weights=weights)
        self._steps = int(parts[_STEPS]) if weights else 0  # else it is the optimizer of the phase before
        for number, (name, each) in enumerate(self._named):
            kinds = [kind for kind in parts.kinds(name) if self._own(kind, name) in parts]
            kept = {kind: self._kept(each, name, parts, self._own(kind, name)) for kind in kinds}
            self._optimizer.state[each] |= kept
            self._met[number].copy_(each)
            if (key := f"{_MOMENTUM}/{name}") in parts:
                self._momentum[number].copy_(parts[key])
