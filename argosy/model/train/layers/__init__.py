"""Parts of a forward pass in place of transformers' own; here, exchanges that gradients go through."""

from typing import Any

import torch
from torch import Tensor


def _done(name: str, tensor: Tensor, *given: Any) -> Tensor:
    """Return what a collective of torch makes of `tensor`, whose gradient its counterpart makes."""
    operations = torch.ops._c10d_functional
    *options, group = given
    made: Tensor = operations.wait_tensor(getattr(operations, name)(tensor.contiguous(), *options, group.group_name))
    return made


def sum_of(tensor: Tensor, group: Any) -> Tensor:
    """Return the sum over the processes, with which all go on alike."""
    return _done("all_reduce", tensor, "sum", group)


def gather_parts(part: Tensor, group: Any) -> Tensor:
    """Return whole sequences, (samples, length, width), of which each process has a part, in order; of their gradients,
    which are summed over the processes, each receives its part."""
    rows = _done("all_gather_into_tensor", part, group.size(), group)
    whole: Tensor = rows.unflatten(0, (group.size(), -1)).transpose(0, 1).flatten(1, 2)
    return whole


def part_of_sum(tensor: Tensor, group: Any) -> Tensor:
    """Return this process's part, (samples, part of length, width), of the sum over the processes of (samples, length,
    width)."""
    rows = tensor.unflatten(1, (group.size(), -1)).transpose(0, 1).flatten(0, 1)
    return _done("reduce_scatter_tensor", rows, "sum", group.size(), group)


def exchange(rows: Tensor, group: Any, there: list[int] | None = None, here: list[int] | None = None) -> Tensor:
    """Send `there[i]` rows, in order, to process i and receive `here[i]` from it; None: equal parts of them."""
    equal = [len(rows) // group.size()] * group.size()
    return _done("all_to_all_single", rows, here or equal, there or equal, group)
