"""The processes that train together: sums over them, and the share of each in a batch; parallelism within one copy of a
model (tensor, pipeline, sequence, expert) is on one mesh of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from argosy.core.step.contract import StepContext
from argosy.core.step.ranks import rank_timeout

T = TypeVar("T")
_PATIENCE = 12  # times ARGOSY_RANK_TIMEOUT: one hour


@dataclass(frozen=True)
class Group:
    """One of the processes that train together; a process alone need not wait for any other."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    handle: Any = None

    def sum(self, tensor: Tensor) -> Tensor:
        if self.world == 1:
            return tensor
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def sum_gradients(self, parameters: Iterable[Any], group: Any = None) -> None:
        """Replace each gradient by its sum over all processes, or those of a `group` of torch.distributed.

        All of them are sent as one tensor, always of one layout: the order of summation is then the same in every step,
        before and after a resumption. Of FSDP's shards each sends its own, which those of the group have alike."""
        gradients = [local_part(parameter.grad) for parameter in parameters if parameter.grad is not None]
        if self.world == 1 or not gradients:
            return
        flat = torch.empty(sum(each.numel() for each in gradients), device=gradients[0].device)  # float32
        torch.cat([gradient.flatten() for gradient in gradients], out=flat)
        dist.all_reduce(flat, group=group)
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def agreed(self, value: T) -> T:
        """Return the `value` of rank 0."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, device=self.device)
        return box[0]

    def gathered(self, value: T) -> list[T]:
        """Return the `value` of every process, in their order."""
        found: list[Any] = [value] * self.world
        if self.world > 1:
            dist.all_gather_object(found, value, group=self.handle)
        return found

    def apart(self) -> "Group":
        """Return the same processes with a channel of its own for `gathered`, so that a thread may use it while another
        trains; every process calls it."""
        return replace(self, handle=dist.new_group(timeout=_patience(), backend="gloo")) if self.world > 1 else self

    def barrier(self) -> None:
        if self.world > 1:
            dist.barrier()

    def share(self, rows: Sequence[T]) -> Sequence[T]:
        """Return this process's part of `rows`, whose number the processes divide."""
        size = len(rows) // self.world
        return rows[self.rank * size : (self.rank + 1) * size]


def local_part(tensor: Tensor) -> Tensor:
    """Return what this process holds of a tensor; of FSDP's shards, its own."""
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return getattr(local, "_tensor", local)  # torchao's, of which 8 bits are gathered


def join_group(context: StepContext) -> Group:
    """Join the step's processes as one group, by the back end of their device: NCCL, RCCL on AMD's GPUs, HCCL on
    Ascend's, or gloo."""
    device: torch.device = context.device
    if device.type != "cpu":
        torch.get_device_module(device).set_device(device)
    if context.world > 1 and not dist.is_initialized():
        dist.init_process_group(dist.get_default_backend_for_device(device), timeout=_patience())
    return Group(context.rank, context.world, device)


def _patience() -> timedelta:
    """Return how long processes wait for each other: while rank 0 exports a model, longer than for a sign of life."""
    return timedelta(seconds=_PATIENCE * rank_timeout())
