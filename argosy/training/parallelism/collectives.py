"""Sums and exchanges between processes that gradients go through."""

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
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _exchange(tensor, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _exchange(grads[0], ctx.group), None


def _exchange(tensor: Tensor, group: Any) -> Tensor:
    received = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    dist.all_to_all_single(received, tensor.contiguous(), group=group)
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


def exchange(tensor: Tensor, group: Any) -> Tensor:
    """Send the i-th of equal parts along the first dimension to process i; returns what the others sent, in order."""
    received: Tensor = _Exchange.apply(tensor, group)  # type: ignore[no-untyped-call]
    return received
