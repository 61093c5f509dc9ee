"""FSDP2: weights, gradients and optimizer in shards, one for each process of a shard group, copied over the groups.

Zhao et al. 2023, "PyTorch FSDP". One shard for each copy is data parallelism whose sums overlap with the backward."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from argosy.model.train.blocks import blocks
from argosy.model.train.config.engine import FSDP
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.parallelism.mesh import DENSE


class FSDPEngine(TorchEngine):
    """The blocks and what is around them are gathered when they compute; sums of gradients are over all processes."""

    holds_whole = False

    def _wrap(self, model: Any) -> Any:
        mesh = self._make_mesh()
        for block in blocks(self.module.model):
            fully_shard(block, mesh=mesh)
        self._sharded: Any = fully_shard(self.module, mesh=mesh)
        every: Any = self.module.modules()
        for each in every:
            if hasattr(each, "set_gradient_divide_factor"):
                each.set_gradient_divide_factor(1.0)  # the loss is a share of the global batch's already
                each.set_force_sum_reduction_for_comms(True)  # gloo knows sums alone
        return model

    def _make_mesh(self) -> DeviceMesh:
        """Return the mesh (replicas, shards) of the processes that have the same part of the model."""
        ranks = torch.from_numpy(self.mesh.rows(DENSE))
        engine = self.config.engine
        shards = engine.shard_size or ranks.shape[1] if isinstance(engine, FSDP) else 1
        names = ("parts", "replicas", "shards")
        every = DeviceMesh(self.group.device.type, ranks.reshape(len(ranks), -1, shards), mesh_dim_names=names)
        return every["replicas", "shards"]

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        self._sharded.set_requires_all_reduce(last)
        self._sharded.set_is_last_backward(last)
        return super()._backward(part, targets, last=last)

    def _sum_gradients(self, named: dict[str, Any]) -> None:
        self.shares.sum_parts(named)  # the backward summed over the processes that hold the same weights

    def _clip(self, named: dict[str, Any]) -> Tensor:
        if self.mesh.divides:
            return super()._clip(named)
        norm: Any = super()._clip(named)
        return norm.full_tensor()  # type: ignore[no-any-return]

    def _whole(self, tensor: Tensor, name: str) -> Tensor:
        return super()._whole(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor, name)

    def _like(self, tensor: Tensor, parameter: Tensor, name: str) -> Tensor:
        here = super()._like(tensor, parameter, name)
        if not tensor.ndim or not isinstance(parameter, DTensor):
            return here
        return distribute_tensor(here, parameter.device_mesh, parameter.placements, src_data_rank=None)
