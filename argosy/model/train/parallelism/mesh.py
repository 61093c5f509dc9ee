"""The mesh of a phase's processes: which of them see other samples, and which share a model's parts, and how."""

from collections.abc import Mapping
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.train.layers import exchange
from argosy.model.train.layers.attention import packed_attention, recurrent
from argosy.model.train.parallelism import Group

AXES = ("pipeline", "data", "expert", "sequence", "tensor")
"""Outermost first: the processes of one tensor-parallel group are neighbours, of one machine."""
_SAMPLES = ("data", "expert")  # see other samples
DENSE = ("data", "expert", "sequence")  # have other gradients of the same parts of weights
TOKENS = ("sequence", "tensor")  # have other tokens of the same samples
_GROUPS = (*((axis,) for axis in AXES), DENSE, ("data", "sequence"), TOKENS)


class Mesh:
    """A process's place among all, by axis; data parallelism alone needs no groups of its own.

    Each process makes it at the same time as the others do, since they make the groups together.

    Args:
        sizes: processes along an axis; what is left of them is `data`."""

    def __init__(self, group: Group, sizes: Mapping[str, int]) -> None:
        self.group = group
        shape = {axis: sizes.get(axis, 1) for axis in AXES if axis != "data"}
        shape["data"] = group.world // prod(shape.values())
        self.sizes = {axis: shape[axis] for axis in AXES}
        self.divides = prod(shape.values()) > shape["data"]
        """Whether a copy of the model is shared out at all."""
        self._ranks = np.arange(group.world).reshape(tuple(self.sizes.values()))
        self.place = dict(zip(AXES, (int(i) for i in np.unravel_index(group.rank, self._ranks.shape)), strict=True))
        self._groups = {axes: _join(self.rows(axes)) for axes in _GROUPS} if self.divides else {}
        self.ends = _join(self.rows(("pipeline",))[:, [0, -1]]) if self.sizes["pipeline"] > 1 else None
        """The group of the first and the last stage's processes."""

    def rows(self, axes: tuple[str, ...]) -> np.ndarray[Any, Any]:
        """Return all ranks, (n, m): those of a row differ in `axes` alone."""
        moved = np.moveaxis(self._ranks, [AXES.index(axis) for axis in axes], range(-len(axes), 0))
        return moved.reshape(-1, prod(self.sizes[axis] for axis in axes))

    def over(self, *axes: str) -> Any:
        """Return the group of the processes that differ from this one in `axes` alone; None where it is alone."""
        return self._groups.get(axes)

    @cached_property
    def samples(self) -> tuple[int, int]:
        """This process's place among those that see other samples, and their number."""
        sizes = [self.sizes[axis] for axis in _SAMPLES]
        return int(np.ravel_multi_index([self.place[axis] for axis in _SAMPLES], sizes)), prod(sizes)

    @property
    def counts(self) -> bool:
        """Whether this process has losses: the last stage of a pipeline has."""
        return self.place["pipeline"] == self.sizes["pipeline"] - 1

    def sum_gradients(self, parameters: Mapping[str, Any], *axes: str) -> None:
        """Replace each gradient by its sum over `axes`, all sent as one tensor, of one layout in every step."""
        if (group := self.over(*axes)) is not None:
            self.group.sum_gradients(parameters.values(), group)

    def gather(self, tensor: Tensor, axis: str, dimension: int) -> Tensor:
        """Put the parts of a tensor together, which the processes along `axis` hold equal ones of."""
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.sizes[axis])]
        dist.all_gather(parts, tensor.contiguous(), group=self.over(axis))
        return torch.cat(parts, dim=dimension)

    def part(self, tensor: Tensor, axis: str, dimension: int) -> Tensor:
        """Return this process's part of a tensor along `axis`."""
        return tensor.chunk(self.sizes[axis], dim=dimension)[self.place[axis]].contiguous()


def _join(rows: np.ndarray[Any, Any]) -> Any:
    """Make a group of each row of ranks; returns the one of this process, None where it would be alone."""
    return dist.new_subgroups_by_enumeration(rows.tolist())[0] if rows.shape[1] > 1 else None


_NAME = "argosy_sequence"


def divide_sequence(model: Any, mesh: Mesh, how: str = "ulysses") -> None:
    """Have a causal model's attention see whole samples, of which the mesh's sequence axis has parts: for some of the
    heads (Jacobs et al. 2023, "DeepSpeed Ulysses"), or, where `how` is gather, for the part's queries. In evaluation
    each process has whole samples."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    size = mesh.sizes["sequence"]
    if size == 1:
        return
    if name := recurrent(model):
        raise InputError(f"sequence_parallel={size} is not for {model.config.model_type} models, whose {name} is "
                         "no attention over all tokens: set sequence_parallel=1")
    attention: Any = _Attention(mesh.over("sequence"), size)
    if how == "gather":
        attention = torch.compiler.disable(partial(packed_attention, group=mesh.over("sequence")))
    ALL_ATTENTION_FUNCTIONS.register(_NAME, attention)
    model.set_attn_implementation(_NAME)


class _Attention:
    """An attention function of transformers over the whole sequence, for some of the heads."""

    def __init__(self, group: Any, size: int) -> None:
        self._group, self._size = group, size

    def __call__(self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
                 **kwargs: Any) -> tuple[Tensor, None]:
        if not module.training:
            return packed_attention(module, query, key, value, attention_mask, **kwargs)
        query, key, value = (self._exchanged(each) for each in (query, key, value))
        output, _ = packed_attention(module, query, key, value, attention_mask, **kwargs)
        return self._exchanged(output), None

    def _exchanged(self, tensor: Tensor) -> Tensor:
        """Turn (samples, heads, part of length, size) into (samples, part of heads, length, size); or (samples, length,
        part of heads, size) into (samples, part of length, heads, size)."""
        samples, whole, part, size = tensor.shape
        parts = tensor.reshape(samples, self._size, whole // self._size, part, size).permute(1, 0, 2, 3, 4)
        received = exchange(parts, self._group)
        return received.permute(1, 2, 0, 3, 4).reshape(samples, whole // self._size, self._size * part, size)
