"""Cuts a model's weights over the mesh: their parts, the sums of their gradients, the gradient's norm."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from argosy.core.errors import InputError
from argosy.model.train.layers import gather_parts, part_of_sum, sum_of
from argosy.model.train.layers.attention import blocks, mixers
from argosy.model.train.layers.experts import parallelize_experts
from argosy.model.train.parallelism import local_part
from argosy.model.train.parallelism.mesh import DENSE, Mesh


class Shares:
    """Cuts a causal model's weights, and knows of each, by name, what this process holds.

    Raises InputError: it is not known how to cut the model."""

    def __init__(self, model: Any, mesh: Mesh) -> None:
        self._mesh = mesh
        self._cuts = {name: ("tensor", dimension) for name, dimension in divide_tensors(model, mesh).items()}
        if mesh.sizes["expert"] > 1:
            self._cuts |= dict.fromkeys(parallelize_experts(model, mesh.over("expert")), ("expert", 0))
        self.twice = ""
        """Name of a weight that two pipeline stages hold."""

    def whole(self, tensor: Tensor, name: str) -> Tensor:
        """Put a tensor of weight `name` together; all processes that hold parts of it call this."""
        return self._mesh.gather(tensor, *self._cuts[name]) if name in self._cuts else tensor

    def place(self, shape: tuple[int, ...], name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return where this process's part of weight `name`, of `shape`, begins in the whole, and the whole's shape."""
        start, whole = [0] * len(shape), list(shape)
        if name in self._cuts:
            axis, dimension = self._cuts[name]
            start[dimension] = shape[dimension] * self._mesh.place[axis]
            whole[dimension] = shape[dimension] * self._mesh.sizes[axis]
        return tuple(start), tuple(whole)

    def sum_gradients(self, named: Mapping[str, Any]) -> None:
        """Sum each gradient over all processes that have a part of it."""
        experts = {name: each for name, each in named.items() if self._axis(name) == "expert"}
        self._mesh.sum_gradients({name: each for name, each in named.items() if name not in experts}, *DENSE)
        self._mesh.sum_gradients(experts, "data", "sequence")
        self.sum_parts(named)

    def sum_parts(self, named: Mapping[str, Any]) -> None:
        """Sum the gradients that tensor-parallel processes, or two stages, have a part of: of what is not cut, each has
        that of its part of the samples."""
        whole = {name: each for name, each in named.items() if self._axis(name) != "tensor"}
        self._mesh.sum_gradients(whole, "tensor")
        if self.twice:
            self._mesh.group.sum_gradients([named[self.twice]], self._mesh.ends)

    def clip(self, named: Mapping[str, Any], limit: float) -> Tensor:
        """Scale the gradients to a norm, over all weights and processes, of `limit` at most; returns that before."""
        grads = [local_part(each.grad) for each in named.values()]
        norms = torch.stack(torch._foreach_norm(grads, 2, torch.float32)).double()
        copies = torch.tensor([self.copies(name, each) for name, each in named.items()], device=norms.device)
        norm = self._mesh.group.sum((norms.square() / copies).sum()).sqrt().float()
        torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp(max=1.0))  # as torch's clip_grad_norm_ does
        return norm

    def _axis(self, name: str) -> str:
        return self._cuts[name][0] if name in self._cuts else ""

    def copies(self, name: str, parameter: Any) -> int:
        """Return how many processes hold what this one does of weight `name`."""
        sizes = self._mesh.sizes
        copies = self._mesh.group.world // sizes["pipeline"]
        if name in self._cuts:
            copies //= sizes[self._axis(name)]
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            for dimension, placement in enumerate(parameter.placements):
                copies //= mesh.size(dimension) if placement.is_shard() else 1
        return copies * 2 if name == self.twice else copies


_COLUMNS, _ROWS = "colwise", "rowwise"


class SummedLinear(nn.Linear):
    """A linear layer that holds some columns of its matrix: its output is a sum over the processes, then the bias."""

    group: Any

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output from this process's part of the input, (samples, length, width): in training for
        its part of the samples, in evaluation for all."""
        part = nn.functional.linear(input, self.weight)
        output = part_of_sum(part, self.group) if self.training else sum_of(part, self.group)
        return output if self.bias is None else output + self.bias.to(output.dtype)


def divide_tensors(model: Any, mesh: Mesh) -> dict[str, int]:
    """Leave of a causal model of transformers what this process holds along the tensor axis (Shoeybi et al. 2019,
    "Megatron-LM"): some heads and some of the feed-forward layers' width. In training each has a part of every sample
    outside of attention and feed-forward, which begin by gathering these and end with its part of the sum (Korthikanti
    et al. 2022); in evaluation all have whole samples, of any length.

    Returns the dimension that each cut parameter was cut along, by name. Raises InputError: it is not known how to cut
    it."""
    if mesh.sizes["tensor"] == 1:
        return {}
    plan = model.config.base_model_tp_plan
    if not plan:
        raise InputError(f"tensor_parallel={mesh.sizes['tensor']} is not for {model.config.model_type} models, which "
                         "transformers does not say how to cut: set tensor_parallel=1")
    cut: dict[str, int] = {}
    parents: dict[int, Any] = {}
    prefix = f"{model.base_model_prefix}."
    for name, module in list(model.named_modules()):
        kind = plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name.removeprefix(prefix)), "")  # * of a plan is a number
        if kind not in (_COLUMNS, _ROWS) or not isinstance(module, nn.Linear):
            continue
        cut |= {f"{name}.{each}": dimension for each, dimension in _cut(module, kind, mesh).items()}
        if kind == _COLUMNS:
            parent = model.get_submodule(name.rpartition(".")[0])
            parents[id(parent)] = parent
    for mixer in (each for block in blocks(model) for each in mixers(block) if id(each) not in parents):
        parents[id(mixer)] = mixer  # whole on each process, such as OLMo-2's attention: it reads whole samples too
        mixer.register_forward_hook(partial(_take_part, mesh))
    for parent in parents.values():
        parent.register_forward_pre_hook(_Gathered(mesh.over("tensor")), with_kwargs=True)
    return cut


def _take_part(mesh: Mesh, module: Any, args: Any, output: Any) -> Any:
    """Leave of a module's output, or of the first of several, this process's part of the samples in training."""
    if not module.training:
        return output
    if isinstance(output, tuple):
        return (mesh.part(output[0], "tensor", 1), *output[1:])
    return mesh.part(output, "tensor", 1)


def _cut(module: Any, kind: str, mesh: Mesh) -> dict[str, int]:
    """Cut a linear layer by its outputs or inputs; returns the dimension by parameter."""
    dimension = 0 if kind == _COLUMNS else 1
    module.weight = nn.Parameter(mesh.part(module.weight.data, "tensor", dimension))
    module.out_features, module.in_features = module.weight.shape
    if kind == _ROWS:
        module.__class__ = SummedLinear
        module.group = mesh.over("tensor")
        return {"weight": dimension}
    if module.bias is None:
        return {"weight": dimension}
    module.bias = nn.Parameter(mesh.part(module.bias.data, "tensor", 0))
    return {"weight": dimension, "bias": 0}


class _Gathered:
    """Gathers what a module reads in training, once for all of its layers that are cut by outputs."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def __call__(self, module: Any, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not module.training:
            return args, kwargs
        if args:
            return (gather_parts(args[0], self._group), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": gather_parts(kwargs["hidden_states"], self._group)}
