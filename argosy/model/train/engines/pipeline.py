"""Plain torch where each process has some blocks of the model: 1F1B over the micro-batches of a step."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

from argosy.model.train.engines.parts import Whole
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.parallelism.pipeline import Pipeline


class PipelineEngine(TorchEngine):
    """A step's micro-batches pass through the stages; the last one has the losses."""

    holds_whole = False

    def _wrap(self, model: Any) -> Any:
        tied = bool(model.all_tied_weights_keys)
        shared = next(name for name, each in model.named_parameters() if each is model.get_input_embeddings().weight)
        self.module: Any = Pipeline(self.module, self.mesh, self.config.pipeline_interleave)
        self._first, last = self.module.indices[0] == 0, self.module.last is not None
        if tied and (self._first or last):
            self.shares.twice = shared
        stages: list[Any] = [self._stage(index, stage)
                  for index, stage in zip(self.module.indices, self.module.stages, strict=True)]
        given: dict[str, Any] = {"n_microbatches": self.config.micro_batches, "loss_fn": self._loss,
                                 "scale_grads": False}
        self._schedule: Any = (Schedule1F1B(stages[0], **given) if len(stages) == 1 else
                               ScheduleInterleaved1F1B(stages, **given))
        return self.module

    def _stage(self, index: int, stage: Any) -> PipelineStage:
        samples, length = self.config.micro_batch, self.config.sequence_length // self.config.sequence_parallel
        tokens = torch.empty(samples, length, dtype=torch.int64, device="meta")
        states = torch.empty(samples, length, self.module.width, device="meta", requires_grad=True)
        return PipelineStage(stage, index, self.module.count, self.group.device, group=self.mesh.over("pipeline"),
                             input_args=states if index else tokens, output_args=states)

    @property
    def _named(self) -> list[tuple[str, Any]]:
        return [(name, each) for name, each in self.module.named_weights() if each.requires_grad]

    def _accumulate(self, tensors: list[Tensor], targets: Tensor) -> Tensor:
        inputs, goals, channels, *documents = tensors
        self._targets = targets
        self._sums = torch.zeros(self.module.channels, dtype=torch.float64, device=self.group.device)
        given = {"documents": documents[0]} if documents else {}
        last = self.module.last is not None
        self._schedule.step(*([inputs] if self._first else []), return_outputs=False, **given,
                            **({"target": torch.stack([goals, channels], dim=1)} if last else {}))
        return self._sums

    def _loss(self, hidden: Tensor, goals: Tensor) -> Tensor:
        loss, sums = self.module.last.score(hidden, goals[:, 0], goals[:, 1])
        self._sums += sums
        return loss / self._targets  # type: ignore[no-any-return]

    def _state(self) -> Iterator[tuple[str, Whole]]:
        for key, whole in super()._state():
            if self._first or key.partition("/")[2] != self.shares.twice:
                yield key, whole

    def weigh(self, weights: Sequence[float]) -> None:
        super().weigh(weights)
        if self.module.last is not None:
            self.module.last.weights = self.module.weights

    def weights(self) -> dict[str, Tensor] | None:
        """Return the whole weights on rank 0, as Engine.weights does; each stage sends its own."""
        held: dict[str, Tensor] = {}
        for place, leader in enumerate(self.mesh.rows(("pipeline",))[0].tolist()):
            own = self._own_weights() if self.mesh.place["pipeline"] == place else []
            if self.group.rank == leader == 0:
                held.update(own)
            elif self.group.rank == leader:
                dist.send_object_list([[(name, tuple(each.shape)) for name, each in own]], 0)
                for _, tensor in own:
                    dist.send(tensor, 0)
            elif self.group.rank == 0:
                held.update(self._received(leader))
        return dict(sorted(held.items())) if self.group.rank == 0 else None

    def _own_weights(self) -> list[tuple[str, Tensor]]:
        return [(name, self._whole(each.detach(), name).contiguous()) for name, each in self.module.named_weights()
                if self._first or name != self.shares.twice]

    def _received(self, rank: int) -> Iterator[tuple[str, Tensor]]:
        box: list[Any] = [None]
        dist.recv_object_list(box, rank)
        for name, shape in box[0]:
            tensor = torch.empty(shape, device=self.group.device)
            dist.recv(tensor, rank)
            yield name, tensor.cpu()
