"""Cuts a model's weights over the mesh: their parts, the sums of their gradients, the gradient's norm."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from argosy.model.train.layers.experts import parallelize_experts
from argosy.model.train.parallel import local_part
from argosy.model.train.parallelism.mesh import DENSE, Mesh
from argosy.model.train.parallelism.tensor import divide_tensors


class Shares:
    """Cuts a causal model's weights, and knows of each, by name, what this process holds.

    Raises InputError: it is not known how to cut the model."""

    def __init__(self, model: Any, mesh: Mesh) -> None:
        self._mesh = mesh
        dimensions, self._summed = divide_tensors(model, mesh)
        self._cuts = {name: ("tensor", dimension) for name, dimension in dimensions.items()}
        if mesh.sizes["expert"] > 1:
            self._cuts |= dict.fromkeys(parallelize_experts(model, mesh.over("expert")), ("expert", 0))
        self.twice = ""
        """Name of a weight that two pipeline stages hold."""

    def whole(self, tensor: Tensor, name: str) -> Tensor:
        """Put a tensor of weight `name` together; all processes that hold parts of it call this."""
        return self._mesh.gather(tensor, *self._cuts[name]) if name in self._cuts else tensor

    def part(self, tensor: Tensor, name: str) -> Tensor:
        """Return what this process holds of a whole tensor of weight `name`."""
        return self._mesh.part(tensor, *self._cuts[name]) if name in self._cuts else tensor

    def sum_gradients(self, named: Mapping[str, Any]) -> None:
        """Sum each gradient over all processes that have a part of it."""
        experts = {name: each for name, each in named.items() if self._axis(name) == "expert"}
        self._mesh.sum_gradients({name: each for name, each in named.items() if name not in experts}, *DENSE)
        self._mesh.sum_gradients(experts, "data", "sequence")
        self.sum_parts(named)

    def sum_parts(self, named: Mapping[str, Any]) -> None:
        """Sum the gradients that tensor-parallel processes, or two stages, have a part of."""
        self._mesh.sum_gradients({name: each for name, each in named.items() if name in self._summed}, "tensor")
        if self.twice:
            self._mesh.group.sum_gradients([named[self.twice]], self._mesh.ends)

    def clip(self, named: Mapping[str, Any], limit: float) -> Tensor:
        """Scale the gradients so that their norm, over all weights and processes, is `limit` at most.

        Returns:
            The norm before, ()."""
        grads = [local_part(each.grad) for each in named.values()]
        norms = torch.stack(torch._foreach_norm(grads)).double()
        copies = torch.tensor([self._copies(name, each) for name, each in named.items()], device=norms.device)
        norm = self._mesh.group.sum((norms.square() / copies).sum()).sqrt().float()
        torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp(max=1.0))  # as torch's clip_grad_norm_ does
        return norm

    def _axis(self, name: str) -> str:
        return self._cuts[name][0] if name in self._cuts else ""

    def _copies(self, name: str, parameter: Any) -> int:
        """Return the number of processes that hold the same part of a weight."""
        sizes = self._mesh.sizes
        copies = self._mesh.group.world // sizes["pipeline"]
        if name in self._cuts:
            copies //= sizes[self._axis(name)]
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            for dimension, placement in enumerate(parameter.placements):
                copies //= mesh.size(dimension) if placement.is_shard() else 1
        return copies * 2 if name == self.twice else copies
