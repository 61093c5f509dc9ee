"""FSDP2: weights, gradients and optimizer in shards, one for each process of a shard group, copied over the groups.

Zhao et al. 2023, "PyTorch FSDP". One shard for each copy is data parallelism whose sums overlap with the backward."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from argosy.model.train.config.engine import FSDP
from argosy.model.train.engines.parts import Parts, Place
from argosy.model.train.engines.pipeline import PipelineEngine
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.layers.attention import blocks
from argosy.model.train.layers.experts import mixtures
from argosy.model.train.parallelism import local_part
from argosy.model.train.parallelism.mesh import DENSE


class FSDPEngine(TorchEngine):
    """The blocks and what is around them are gathered when they compute; sums of gradients are over all processes."""

    holds_whole = False

    def _wrap(self, model: Any) -> Any:
        self._shard(self.module, self.module.model)
        return model

    def _shard(self, module: Any, model: Any) -> None:
        """Shard the blocks of `model`, its experts where processes share them, and what else is in `module`."""
        stays = self.config.pipeline_parallel > 1 or not self._reshards
        given: dict[str, Any] = {"reshard_after_forward": False} if stays else {}
        every = self._make_mesh(DENSE)
        if self.mesh.sizes["expert"] > 1:  # whose gradients are of the tokens of all processes along that axis
            few = self._make_mesh(("data", "sequence"))  # all processes make it, those of a dense stage too
            for each in mixtures(model):
                fully_shard(each.experts, mesh=few, mp_policy=self._policy, **given)
        for block in blocks(model):
            fully_shard(block, mesh=every, mp_policy=self._policy, **given)
        fully_shard(module, mesh=every, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32), **given)
        for each in module.modules():
            if hasattr(each, "set_gradient_divide_factor"):
                each.set_gradient_divide_factor(1.0)  # the loss is a share of the global batch's already
                each.set_force_sum_reduction_for_comms(True)  # gloo knows sums alone

    @property
    def _parameters(self) -> list[tuple[str, Any]]:
        """List the shards by name: an evaluation leaves some weights gathered, which are neither saved nor updated."""
        for each in self.module.modules():
            if isinstance(each, FSDPModule):
                each.reshard()
        return super()._parameters

    @property
    def _reshards(self) -> bool:
        """Whether the backward gathers again."""
        return getattr(self.config.engine, "reshard", True)

    @property
    def _policy(self) -> MixedPrecisionPolicy:
        """Precision in which the blocks are gathered. What is around them stays float32: in bfloat16 the output layer's
        gradient, a sum over many tokens, would lose its small parts."""
        given = torch.bfloat16 if self.config.param_dtype == "bfloat16" else None
        return MixedPrecisionPolicy(given, torch.float32, cast_forward_inputs=False)

    def _fill(self, model: Any) -> None:
        super()._fill(model)
        self.module._apply(lambda each: each)  # FSDP2 looks for the new tensors then
        self._rescale()

    def _rescale(self) -> None:
        """Have the weights' scales of 8 bits computed at once, over all shards; each would be as it is gathered.
        Whatever changes weights calls this, as those of other scales would be cut off."""
        if self.config.gathers_8_bits:
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

            precompute_float8_dynamic_scale_for_fsdp(self.module)

    def _update(self, learning_rate: float) -> Tensor:
        norm = super()._update(learning_rate)
        self._rescale()
        return norm

    def _restore(self, parts: Parts, *, weights: bool) -> None:
        super()._restore(parts, weights=weights)
        self._rescale()

    def _make_mesh(self, axes: tuple[str, ...]) -> DeviceMesh:
        """Return the mesh (replicas, shards) of the processes along `axes`, which have the same part of the model."""
        ranks = torch.from_numpy(self.mesh.rows(axes))
        engine = self.config.engine
        shards = engine.shard_size or ranks.shape[1] if isinstance(engine, FSDP) else 1
        shards = min(shards, ranks.shape[1])
        names = ("parts", "replicas", "shards")
        every = DeviceMesh(self.group.device.type, ranks.reshape(len(ranks), -1, shards), mesh_dim_names=names)
        return every["replicas", "shards"]

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        self.module.set_requires_all_reduce(last)
        self.module.set_reshard_after_backward(last or self._reshards)
        return super()._backward(part, targets, last=last)

    def _sum_gradients(self, named: dict[str, Any]) -> None:
        self.shares.sum_parts(named)  # the backward summed over the processes that hold the same weights

    def _clip(self, named: dict[str, Any]) -> Tensor:
        norm = super()._clip(named)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def _whole(self, tensor: Tensor, name: str) -> Tensor:
        return super()._whole(local_part(tensor.full_tensor()) if isinstance(tensor, DTensor) else tensor, name)

    def _place(self, tensor: Tensor, name: str) -> Place:
        place = super()._place(tensor, name)
        if not isinstance(tensor, DTensor):
            return place
        _, start = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
        return Place(tuple(a + b for a, b in zip(place.start, start, strict=True)), place.shape)

    def _like(self, here: Tensor, parameter: Any) -> Tensor:
        if not isinstance(parameter, DTensor):
            return here
        return DTensor.from_local(here, parameter.device_mesh, parameter.placements, run_check=False,
                                  shape=parameter.shape, stride=parameter.stride())


class FSDPPipelineEngine(FSDPEngine, PipelineEngine):
    """Stages of a pipeline whose weights are sharded over the processes that have the same one. A stage is gathered
    once in a step, so that the optimizer and the weights between steps are in shards."""

    def _wrap(self, model: Any) -> Any:
        return PipelineEngine._wrap(self, model)

    def _divide(self, stage: Any) -> None:
        self._shard(stage, stage.loss.model)
