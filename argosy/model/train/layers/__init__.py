"""Parts of a forward pass in place of transformers' own; here, exchanges that gradients go through."""

from collections.abc import Callable
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


class GatheredAttention(torch.autograd.Function):
    """Attention to the keys and values of a whole group (Llama Team 2024, "The Llama 3 herd of models", 3.3.2). Those
    of other processes are not kept: the backward gathers them again, and adds up their gradients where they belong."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, pair: Tensor, size: int, group: Any,
                attend: Callable[..., tuple[Tensor, Tensor | None]], gradients: Any, how: tuple[Any, ...]) -> Tensor:
        """Return what `attend` makes of flat tensors and of `how`; `gradients` is the backward of its kernel.

        `pair`: keys, of `size`, and values side by side, (samples, length, heads, both)."""
        ctx.size, ctx.group, ctx.attend, ctx.gradients, ctx.how = size, group, attend, gradients, how
        output, sums = attend(query, *_gather(pair, size, group), *how)
        ctx.save_for_backward(query, pair, *(() if sums is None else (output, sums)))
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, pair, *kept = ctx.saved_tensors
        given = [query, *_gather(pair, ctx.size, ctx.group)]
        if kept:
            found = ctx.gradients(gradient, *given, *kept, *ctx.how)
        else:
            given = [each.detach().requires_grad_() for each in given]
            with torch.enable_grad():  # keys and values once for each query head, and not again in each piece
                q, k, v = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in given)
                output, _ = ctx.attend(q, k, v, *ctx.how)
            found = torch.autograd.grad(output, given, gradient)
        both = torch.cat(found[1:], dim=-1).view(len(pair), -1, pair.shape[2] * pair.shape[3])
        return found[0], part_of_sum(both, ctx.group).view(pair.shape), *[None] * 5


def _gather(pair: Tensor, size: int, group: Any) -> tuple[Tensor, Tensor]:
    """Return the keys and the values of all tokens, (tokens, heads, head size)."""
    whole = gather_parts(pair.flatten(2), group).flatten(0, 1).unflatten(1, pair.shape[2:])
    return whole[..., :size], whole[..., size:]
