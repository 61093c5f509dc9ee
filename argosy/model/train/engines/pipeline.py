"""Plain torch where each process has some blocks of the model: a schedule over the micro-batches of a step."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import pipelining

from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.parallelism.mesh import TOKENS
from argosy.model.train.parallelism.pipeline import Pipeline


class PipelineEngine(TorchEngine):
    """A step's micro-batches pass through the stages; the last one has the losses."""

    holds_whole = False

    def _wrap(self, model: Any) -> Any:
        tied = bool(model.all_tied_weights_keys)
        shared = next(name for name, each in model.named_parameters() if each is model.get_input_embeddings().weight)
        self.module: Any = Pipeline(self.module, self.mesh, self.config.pipeline_interleave)
        for stage in self.module.stages:
            self._divide(stage)
        self._first, last = self.module.indices[0] == 0, self.module.last is not None
        if tied and (self._first or last):
            self.shares.twice = shared
        stages: list[Any] = list(map(self._stage, self.module.indices, self.module.stages))
        given: dict[str, Any] = {"n_microbatches": self.config.micro_batches, "loss_fn": self._loss,
                                 "scale_grads": False}
        if self.config.pipeline_schedule == "zero_bubble":
            self._schedule: Any = pipelining.ScheduleInterleavedZeroBubble(stages, **given)
        else:
            self._schedule = pipelining.Schedule1F1B(stages[0], **given) if len(stages) == 1 else (
                pipelining.ScheduleInterleaved1F1B(stages, **given))
        return self.module

    def _divide(self, stage: Any) -> None:
        """Share the weights of a stage out over the processes that have the same one."""

    def _stage(self, index: int, stage: Any) -> pipelining.PipelineStage:
        part = self._part(*TOKENS)
        samples, length = self.config.micro_batch, part.stop - part.start
        tokens = torch.empty(samples, length, dtype=torch.int64, device="meta")
        states = [torch.empty(samples, length, self.module.width, device="meta", requires_grad=True)]
        if self.module.routing:
            states.append(torch.empty(2 * self.module.routing.experts + 1, device="meta", requires_grad=True))
        return pipelining.PipelineStage(stage, index, self.module.count, self.group.device,
                                        group=self.mesh.over("pipeline"), output_args=tuple(states),
                                        input_args=tuple(states) if index else tokens)

    @property
    def _parameters(self) -> list[tuple[str, Any]]:
        return self.module.named_weights()  # type: ignore[no-any-return]

    def _accumulate(self, tensors: list[Tensor], targets: Tensor) -> Tensor:
        inputs, goals, channels, *documents = tensors
        self._targets = targets
        self._sums = torch.zeros(self.module.channels, dtype=torch.float64, device=self.group.device)
        given = {"targets": goals, **({"documents": documents[0]} if documents else {})}
        last = self.module.last is not None
        self._schedule.step(*([inputs] if self._first else []), return_outputs=False, **given,
                            **({"target": torch.stack([goals, channels], dim=1)} if last else {}))
        return self._sums

    def _loss(self, output: Any, goals: Tensor) -> Tensor:
        hidden, routed = output if self.module.routing else (output, None)
        loss, sums = self.module.last.score(hidden, goals[:, 0], goals[:, 1], routed=routed)
        self._sums += sums
        return loss / self._targets  # type: ignore[no-any-return]

    def weigh(self, weights: Sequence[float]) -> None:
        super().weigh(weights)
        if self.module.last is not None:
            self.module.last.weights = self.module.weights

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the whole weights in rank 0, as Engine.weights does; each stage sends its own."""
        for place, leader in enumerate(self.mesh.rows(("pipeline",))[0].tolist()):
            own = self._own_weights() if self.mesh.place["pipeline"] == place else iter(())
            if self.group.rank == 0:
                yield from own if leader == 0 else self._received(leader)
                continue
            for name, tensor in own:
                if self.group.rank == leader:
                    dist.send_object_list([(name, tuple(tensor.shape), tensor.dtype)], 0)
                    dist.send(tensor, 0)
            if self.group.rank == leader:
                dist.send_object_list([None], 0)

    def _own_weights(self) -> Iterator[tuple[str, Tensor]]:
        for name, each in self.module.named_weights():
            if self._first or name != self.shares.twice:
                yield name, self._whole(each.detach(), name).contiguous()

    def _received(self, rank: int) -> Iterator[tuple[str, Tensor]]:
        while True:
            box: list[Any] = [None]
            dist.recv_object_list(box, rank)
            if box[0] is None:
                return
            name, shape, dtype = box[0]
            tensor = torch.empty(shape, dtype=dtype, device=self.group.device)
            dist.recv(tensor, rank)
            yield name, tensor.cpu()
