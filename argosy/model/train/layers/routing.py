"""Losses of a mixture's routers, and how evenly these spread tokens.

The balance loss is that of Fedus et al. 2021, "Switch Transformers" (equations 4 to 6), over all routers together, as
transformers' `load_balancing_loss_func` computes it: experts * sum over experts of (tokens sent to it) * (mean
probability). It is 1 per expert of a token where routing is even. The router's z-loss is that of Zoph et al. 2022,
"ST-MoE" (equation 5): the mean of log(Z)^2 over tokens and routers."""

from typing import Any

import torch
from torch import Tensor

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.layers.experts import mixtures


class Routing:
    """Records what a model's routers decide, for the losses and the loads.

    Hooks on the routers are as good under FSDP and ZeRO as without. What the backward computes again is not recorded:
    recording is over by then, and the first forward's logits have a gradient under non-reentrant checkpointing.

    Attributes:
        layers: numbers of the blocks that have experts.
        experts: number of them in a block."""

    def __init__(self, model: Any) -> None:
        config = model.config
        routed = {id(each) for each in mixtures(model)}
        self.layers = [index for index, block in enumerate(model.get_decoder().layers)
                       if any(id(each) in routed for each in block.modules())]
        self.experts: int = config.num_local_experts
        self._weights = (config.router_aux_loss_coef, getattr(config, "router_z_loss_coef", 0.0))
        self._recorded: list[tuple[Tensor, Tensor]] | None = None
        self._total: Tensor | float = 0.0
        for each in mixtures(model):
            each.gate.register_forward_hook(self._record)

    def _record(self, _: Any, given: Any, made: tuple[Tensor, Tensor, Tensor]) -> None:
        if self._recorded is not None:
            self._recorded.append((made[0], made[2]))

    def begin(self) -> None:
        """Record the routers' decisions in the forward that follows."""
        self._recorded = []

    def loss(self, targets: Tensor) -> Tensor:
        """Return the weighted losses of the routers in the forward that was recorded, (), times its scored targets.

        Like the summed nats beside it, it becomes a mean when all micro-batches' sums are divided by the targets of
        the global batch. `targets`: (samples, length); a token whose target is IGNORED is padding and does not
        count."""
        recorded, self._recorded = self._recorded or [], None
        scored = targets.flatten() != IGNORED
        number, mask = scored.sum(), scored.float()
        sent, probability, penalty = [], mask.new_zeros(self.experts), mask.new_zeros(())
        for logits, chosen in recorded:
            logits = logits.float()
            probability = probability + mask @ logits.softmax(dim=-1)
            penalty = penalty + mask @ logits.logsumexp(dim=-1).square()
            counts = mask.new_zeros(self.experts).index_add_(0, chosen.flatten(), mask.repeat_interleave(
                chosen.shape[1]))
            sent.append(counts)
        load, rows = torch.stack(sent), (number * len(sent)).clamp(min=1)
        balance = self.experts * (load.sum(dim=0) / rows) @ (probability / rows)
        losses = torch.stack([balance, penalty / rows]) * number
        self._total = self._total + torch.cat([load.flatten(), losses.detach(), number[None]]).double()
        return losses @ losses.new_tensor(self._weights)

    def take(self) -> Tensor:
        """Return sums over the forwards since the last time, (layers * experts + 3,), float64: tokens sent to each
        expert of each layer, balance losses and z-losses times their targets, targets."""
        total, self._total = self._total, 0.0
        return total if isinstance(total, Tensor) else torch.zeros(len(self.layers) * self.experts + 3).double()


def routing_of(model: Any) -> Routing | None:
    """Return the recorder of a causal model's routers; None where it is dense."""
    return Routing(model) if mixtures(model) else None
