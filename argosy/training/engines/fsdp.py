"""FSDP2: weights, gradients and optimizer in shards, one for each process of a shard group, copied over the groups.

Zhao et al. 2023, "PyTorch FSDP". One shard for each copy is data parallelism whose sums overlap with the backward."""

from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from argosy.training.engines.torch import TorchEngine


class FSDPEngine(TorchEngine):
    """The blocks and what is around them are gathered when they compute; sums of gradients are over all processes."""

    def _wrap(self) -> None:
        shards = 1 if self.config.engine == "ddp" else self.config.shard_size or self.group.world
        mesh = init_device_mesh(self.group.device.type, (self.group.world // shards, shards),
                                mesh_dim_names=("replicas", "shards"))
        for block in blocks(self.module.model):
            fully_shard(block, mesh=mesh)
        self._sharded: Any = fully_shard(self.module, mesh=mesh)
        every: Any = self.module.modules()
        for each in every:
            if hasattr(each, "set_gradient_divide_factor"):
                each.set_gradient_divide_factor(1.0)  # the loss is a share of the global batch's already
                each.set_force_sum_reduction_for_comms(True)  # gloo knows sums alone

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        self._sharded.set_requires_all_reduce(last)
        self._sharded.set_is_last_backward(last)
        return super()._backward(part, targets, last=last)

    def _sum_gradients(self, parameters: list[Any]) -> None:
        """The backward summed them."""

    def _clip(self, parameters: list[Any]) -> Tensor:
        return self._whole(super()._clip(parameters))

    def _whole(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def _like(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        here = super()._like(tensor, parameter)
        if not isinstance(parameter, DTensor):
            return here
        return distribute_tensor(here, parameter.device_mesh, parameter.placements, src_data_rank=None)


def blocks(model: Any) -> list[Any]:
    """List the blocks of a causal model: the longest of its lists of modules."""
    lists: list[list[Any]] = [list(each) for each in model.get_decoder().children() if isinstance(each, nn.ModuleList)]
    return max(lists, key=len)
