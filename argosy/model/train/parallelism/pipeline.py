"""Pipeline parallelism: each process has some blocks of the model, and micro-batches pass from one to the next.

Schedules are torch.distributed.pipelining's: 1F1B (Narayanan et al. 2019, "PipeDream"), interleaved where a process has
several stages (Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters")."""

import copy
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from argosy.core.errors import InputError
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.parallelism.mesh import Mesh


class Stage(nn.Module):
    """Some blocks of a causal model: reads tokens, or what the stage before gives; gives hidden states, normed after
    the last.

    Its weights have the names that they have in the whole model. Embeddings are in the first stage, and in the last
    where the output layer is tied to them."""

    def __init__(self, loss: LossModule, span: range, count: int) -> None:
        super().__init__()
        whole = loss.model
        if not (names := list(whole.config.base_model_pp_plan or ())):
            raise InputError(f"pipeline_parallel is not for {whole.config.model_type} models, which transformers does "
                             "not say how to divide: set pipeline_parallel=1")
        before, after = names[: names.index("layers")], names[names.index("layers") + 1 :]
        decoder = _copied(whole.get_decoder())
        if span.stop < count:
            _leave_out(decoder, after)
        if span.start and not (span.stop == count and whole.all_tied_weights_keys):
            _leave_out(decoder, before)
        decoder.layers = _span(decoder.layers, span)
        decoder.config = copy.deepcopy(whole.config)
        decoder.config.num_hidden_layers = len(span)
        if getattr(whole.config, "layer_types", None):
            decoder.config.layer_types = [whole.config.layer_types[index] for index in span]
        model = _copied(whole)
        setattr(model, whole.base_model_prefix, decoder)
        if span.stop < count:
            model.set_output_embeddings(None)
        self.loss = loss.around(model)

    def forward(self, given: Tensor, routed: Tensor | None = None, documents: Tensor | None = None,
                targets: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Return hidden states, (samples, length, hidden_size), of tokens (samples, length) or of hidden states. Where
        experts train on `targets`, (samples, length), it adds their routers' sums to those of the stages before
        (`routed`), and returns these too."""
        hidden, routing = self.loss.hidden(given, documents), self.loss.routing
        return (hidden, routing.sums(targets, routed)) if routing and targets is not None else hidden


def _leave_out(decoder: Any, names: list[str]) -> None:
    for name in names:
        setattr(decoder, name, nn.Identity())


def _copied(module: Any) -> Any:
    """Return a module with the same children, of which some can be put in another's place."""
    other = copy.copy(module)
    other._modules = dict(module._modules)
    return other


def _span(blocks: Any, span: range) -> nn.ModuleList:
    kept = nn.ModuleList()
    for index in span:
        kept.add_module(str(index), blocks[index])
    return kept


class Pipeline(nn.Module):
    """This process's stages, and how one batch passes through all of them.

    Called, it scores: each of its processes gives the same tokens, and has the nats of all."""

    def __init__(self, loss: LossModule, mesh: Mesh, each: int) -> None:
        """Cut the model of `loss` into `each` stages a process."""
        super().__init__()
        self.channels, self.routing, self._mesh = loss.channels, loss.routing, mesh
        self._ranks = [int(rank) for rank in dist.get_process_group_ranks(mesh.over("pipeline"))]
        self.count = len(self._ranks) * each
        layers = loss.model.config.num_hidden_layers
        spans = spread(layers, self.count)
        self.indices = list(range(mesh.place["pipeline"], self.count, len(self._ranks)))
        self.stages: Any = nn.ModuleList(Stage(loss, spans[index], layers) for index in self.indices)
        self.width = loss.model.config.hidden_size
        self.model = _copied(loss.model)
        self.model._modules = {}  # its kind and config; the weights are the stages'

    @property
    def last(self) -> LossModule | None:
        """The losses of the last stage, where it is here."""
        return self.stages[-1].loss if self.indices[-1] == self.count - 1 else None

    def get_output_embeddings(self) -> Any:
        return self.last.model.get_output_embeddings() if self.last else None

    def named_weights(self) -> list[tuple[str, Any]]:
        """List the parameters of this process's stages by their names in the whole model."""
        return [pair for stage in self.stages for pair in stage.loss.model.named_parameters()]

    def rank_of(self, stage: int) -> int:
        return self._ranks[stage % len(self._ranks)]

    def forward(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss in nats and the nats of each token, (samples * length,)."""
        given = inputs
        nats = torch.zeros(targets.numel(), dtype=torch.float32, device=inputs.device)
        for index, stage in zip(self.indices, self.stages, strict=True):
            if index:
                given = torch.empty(*inputs.shape, self.width, device=inputs.device)
                dist.recv(given, self.rank_of(index - 1))
            output = stage(given)
            if index < self.count - 1:
                dist.send(output.float().contiguous(), self.rank_of(index + 1))
            else:
                nats = stage.loss.score(output, targets)[1]
        for each in self.modules():
            if isinstance(each, FSDPModule):  # a later change of the weights would not be seen
                each.reshard()
        dist.broadcast(nats, self.rank_of(self.count - 1), group=self._mesh.over("pipeline"))
        return nats.sum(), nats


def spread(layers: int, stages: int) -> list[range]:
    """Divide blocks 0, 1, ... evenly; the last stages, which have the output layer, get those that are fewer."""
    size, more = divmod(layers, stages)
    ends = [stage * size + min(stage, more) for stage in range(stages + 1)]
    return [range(low, high) for low, high in pairwise(ends)]
