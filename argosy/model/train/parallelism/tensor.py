"""Tensor parallelism (Shoeybi et al. 2019, "Megatron-LM"): each process has some heads, and some of the feed-forward
layers' width; attention and feed-forward end with one sum each, forward and backward."""

import re
from typing import Any

from torch import Tensor, nn

from argosy.core.errors import InputError
from argosy.model.train.layers.collectives import copy_to, sum_of
from argosy.model.train.parallelism.mesh import Mesh

_COLUMNS, _ROWS, _SUMMED = "colwise", "rowwise", "replicated_with_grad_allreduce"


class SummedLinear(nn.Linear):
    """A linear layer that holds some columns of its matrix: its output is a sum over the processes, then the bias."""

    group: Any

    def forward(self, input: Tensor) -> Tensor:
        """Return the whole layer's output, (..., out_features), from this process's part of the input."""
        output = sum_of(nn.functional.linear(input, self.weight), self.group)
        return output if self.bias is None else output + self.bias.to(output.dtype)


def divide_tensors(model: Any, mesh: Mesh) -> tuple[dict[str, int], set[str]]:
    """Leave of a causal model of transformers what this process holds along the mesh's tensor axis.

    Returns:
        The dimension that each cut parameter was cut along, by name; and the names of those whose gradients are a part
        of a sum over the axis.

    Raises InputError: it is not known how to cut it."""
    if mesh.sizes["tensor"] == 1:
        return {}, set()
    plan = model.config.base_model_tp_plan
    if not plan:
        raise InputError(f"tensor_parallel={mesh.sizes['tensor']} is not for {model.config.model_type} models, which "
                         "transformers does not say how to cut: set tensor_parallel=1")
    cut: dict[str, int] = {}
    summed: set[str] = set()
    parents: dict[int, Any] = {}
    prefix = f"{model.base_model_prefix}."
    for name, module in list(model.named_modules()):
        kind = _kind(plan, name.removeprefix(prefix))
        if kind == _SUMMED:
            summed |= {f"{name}.{each}" for each, _ in module.named_parameters()}
        if kind not in (_COLUMNS, _ROWS) or not isinstance(module, nn.Linear):
            continue
        cut |= {f"{name}.{each}": dimension for each, dimension in _cut(module, kind, mesh).items()}
        if kind == _COLUMNS:
            parent = model.get_submodule(name.rpartition(".")[0])
            parents[id(parent)] = parent
    for parent in parents.values():
        parent.register_forward_pre_hook(_Copied(mesh.over("tensor")), with_kwargs=True)
    return cut, summed


def _kind(plan: dict[str, str], name: str) -> str:
    """Return how a plan divides a module; its patterns have * for a number."""
    return plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name), "")


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


class _Copied:
    """Sums the gradient of what a module reads first, once for all of its layers that are cut by outputs."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def __call__(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (copy_to(args[0], self._group), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": copy_to(kwargs["hidden_states"], self._group)}
