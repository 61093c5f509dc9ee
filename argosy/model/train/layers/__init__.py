"""Parts of a forward pass in place of transformers' own; here, sums and exchanges that gradients go through."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, there: list[int] | None, here: list[int] | None, group: Any) -> Tensor:
        ctx.sizes, ctx.group = (here, there), group
        return _exchange(rows, there, here, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        here, there = ctx.sizes  # what came is what goes
        return _exchange(grads[0], here, there, ctx.group), None, None, None


def _exchange(rows: Tensor, there: list[int] | None, here: list[int] | None, group: Any) -> Tensor:
    received = rows.new_empty(len(rows) if here is None else sum(here), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), here, there, group=group)
    return received


def copy_to(tensor: Tensor, group: Any) -> Tensor:
    """Return `tensor`, which each process goes on with in its own way: gradients are summed (f of Shoeybi et al. 2019,
    "Megatron-LM")."""
    copied: Tensor = _Copy.apply(tensor, group)  # type: ignore[no-untyped-call]
    return copied


def sum_of(tensor: Tensor, group: Any) -> Tensor:
    """Return the sum over the processes, with which all go on alike (g of Shoeybi et al. 2019)."""
    total: Tensor = _Sum.apply(tensor, group)  # type: ignore[no-untyped-call]
    return total


def exchange(rows: Tensor, group: Any, there: list[int] | None = None, here: list[int] | None = None) -> Tensor:
    """Send `there[i]` rows, in order, to process i and receive `here[i]` from it; None: equal parts of them."""
    received: Tensor = _Exchange.apply(rows, there, here, group)  # type: ignore[no-untyped-call]
    return received
