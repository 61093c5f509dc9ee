"""The experts of a mixture: their matrix products, their division over processes, the losses of their routers.

Expert parallelism is that of Lepikhin et al. 2020, "GShard": each process holds some experts and sends each of its
tokens to the processes that hold the token's experts. No token is ever dropped, as no expert has a capacity.

It is an experts function of transformers (5.x keeps the experts of a block as two tensors), by its name in
`model.config._experts_implementation`."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from argosy.core.errors import InputError
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.layers import exchange

EXPERTS = "argosy_experts"  # what this is called among transformers' experts functions


def use_experts(model: Any) -> None:
    """Have the experts of a causal model of transformers computed here."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(EXPERTS, _forward)
    model.set_experts_implementation(EXPERTS)


def mixtures(model: Any) -> list[Any]:
    """List the modules of a causal model that route tokens (`gate`) to `experts`, one of each sparse block."""
    return [each for each in model.modules()
            if isinstance(getattr(each, "experts", None), nn.Module) and hasattr(each, "gate")]


def _forward(module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Return the weighted sum of what each token's experts make of it, (tokens, H).

    `module`: `gate_up_proj`, (experts, 2 * I, H), the gate above the other half; `down_proj`, (experts, H, I); `act_fn`
    of the gate. `hidden_states`: (tokens, H). `top_k_index`, `top_k_weights`: (tokens, k), each token's experts and
    their weights."""
    group = getattr(module, "expert_group", None)
    order, ends = _by_expert(top_k_index.flatten(), len(module.gate_up_proj) * (1 if group is None else group.size()))
    rows = hidden_states[order // top_k_index.shape[1]]
    rows = _feed_forward(module, rows, ends) if group is None else _elsewhere(module, rows, ends, group)
    back = rows[order.argsort()].view(*top_k_weights.shape, rows.shape[1])
    return (back * top_k_weights.unsqueeze(-1)).sum(dim=1).to(hidden_states.dtype)


def _elsewhere(module: Any, rows: Tensor, ends: Tensor, group: Any) -> Tensor:
    """Return what experts make of rows, up to each of `ends`, where the processes of `group` hold equal parts of them.

    Tokens go to their experts and come back by all-to-all, and their gradients likewise. The processes, each with
    tokens of its own, or none, call this together. A weight's gradient is of the tokens of all of them."""
    size, local = group.size(), len(module.gate_up_proj)
    sent = ends.diff(prepend=ends.new_zeros(1))  # tokens by expert, from here
    received = torch.empty_like(sent)  # tokens by process and local expert, to here
    dist.all_to_all_single(received, sent, group=group)
    there, here = (each.view(size, local).sum(dim=1).tolist() for each in (sent, received))
    rows = exchange(rows.to(_dtype(rows)), group, there, here)
    expert = torch.arange(local, device=rows.device).repeat(size).repeat_interleave(received)
    sort, ends = _by_expert(expert, local)
    return exchange(_feed_forward(module, rows[sort], ends)[sort.argsort()], group, here, there)


def parallelize_experts(model: Any, group: Any) -> list[str]:
    """Leave of each of a model's experts tensors this process's part, and have tokens exchanged within `group`.

    Rank r of the n processes of `group` (of torch.distributed) keeps the experts [r * E / n, (r + 1) * E / n). The
    parameters `gate_up_proj` and `down_proj` keep their names and are new objects, cut along the first dimension: an
    optimizer is made after this, and their gradients are no part of a sum over `group`. The model is one that
    `use_experts` was called with, or is called with before its first forward.
    Returns the names of the parameters that were cut.

    Raises InputError: the model has no experts, or the processes do not divide them."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    found = {id(each.experts) for each in mixtures(model)}
    if not found:
        raise InputError(f"expert_parallel={size} needs a model of experts, and this one ({model.config.model_type}) "
                         "is dense: leave it out")
    cut = []
    for name, module in model.named_modules():
        if id(module) not in found:
            continue
        count = len(module.gate_up_proj)
        if count % size:
            raise InputError(f"expert_parallel={size} does not divide the model's {count} experts: choose a divisor")
        for kind in ("gate_up_proj", "down_proj"):
            whole = getattr(module, kind)
            part = whole.detach().chunk(size)[rank].clone()
            setattr(module, kind, nn.Parameter(part, requires_grad=whole.requires_grad))
            cut.append(f"{name}.{kind}")
        module.expert_group = group
    return cut


def _by_expert(expert: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the order that sorts rows by their `expert`, (rows,), and where each expert's end, (count,)."""
    ids, order = expert.sort(stable=True)
    return order, torch.searchsorted(ids, torch.arange(count, device=ids.device), right=True)


def _feed_forward(module: Any, rows: Tensor, ends: Tensor) -> Tensor:
    gate, up = _product(rows, module.gate_up_proj, ends).chunk(2, dim=-1)
    return _product(module.act_fn(gate) * up, module.down_proj, ends)


def _product(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Multiply the rows up to each of `ends` by an expert's matrix of `weights`, (experts, out, in)."""
    dtype = _dtype(rows)
    if rows.is_cuda and dtype is torch.bfloat16 and torch.cuda.get_device_capability(rows.device) >= (8, 0):
        product: Any = getattr(nn.functional, "grouped_mm", None) or torch._grouped_mm
        return product(rows.to(dtype), weights.to(dtype).mT, offs=ends.int())  # type: ignore[no-any-return]
    if not len(rows):
        return nn.functional.linear(rows, weights[0])
    parts = rows.split(ends.diff(prepend=ends.new_zeros(1)).tolist())
    return torch.cat([nn.functional.linear(part, weight)
                      for part, weight in zip(parts, weights.unbind(), strict=True) if len(part)])


def _dtype(rows: Tensor) -> torch.dtype:
    kind = rows.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else rows.dtype


class Routing:
    """Records what a model's routers decide, for the losses and the loads.

    The balance loss is that of Fedus et al. 2021, "Switch Transformers" (equations 4 to 6), over all routers together,
    as transformers' `load_balancing_loss_func` computes it: experts * sum over experts of (tokens sent to it) * (mean
    probability). It is 1 per expert of a token where routing is even. The router's z-loss is that of Zoph et al. 2022,
    "ST-MoE" (equation 5): the mean of log(Z)^2 over tokens and routers.

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
        self.group: Any = None  # has the other tokens of this process's samples
        self._weights = (config.router_aux_loss_coef, getattr(config, "router_z_loss_coef", 0.0))
        self._recorded: list[tuple[int, Tensor, Tensor]] | None = None
        self._total = torch.zeros(len(self.layers) * self.experts + 3, dtype=torch.float64)
        for row, each in enumerate(mixtures(model)):
            each.gate.register_forward_hook(partial(self._record, row))

    def _record(self, row: int, _: Any, given: Any, made: tuple[Tensor, Tensor, Tensor]) -> None:
        if self._recorded is not None:
            self._recorded.append((row, made[0], made[2]))

    def begin(self) -> None:
        """Record the routers' decisions in the forward that follows."""
        self._recorded = []

    def sums(self, targets: Tensor, before: Tensor | None = None) -> Tensor:
        """Return sums over the tokens and routers of the forward that was recorded, added to those of the blocks
        `before`, (2 * experts + 1,): tokens sent to each expert, its probabilities (differentiable), log(Z)^2 (too).

        `targets`: (samples, length); a token whose target is IGNORED is padding and does not count."""
        recorded, self._recorded = self._recorded or [], None
        mask = (targets.flatten() != IGNORED).float()
        given = mask.new_zeros(2 * self.experts + 1) if before is None else before
        counts, probability, penalty = given.split([self.experts, self.experts, 1])
        load = mask.new_zeros(len(self.layers), self.experts)
        for row, logits, chosen in recorded:
            logits = logits.float()
            probability = probability + mask @ logits.softmax(dim=-1)
            penalty = penalty + mask @ logits.logsumexp(dim=-1).square()
            load[row].index_add_(0, chosen.flatten(), mask.repeat_interleave(chosen.shape[1]))
        self._count(slice(-3), load.flatten())
        return torch.cat([counts + load.sum(dim=0), probability, penalty])

    def loss(self, targets: Tensor, shares: Tensor | None = None, sums: Tensor | None = None) -> Tensor:
        """Return the weighted losses of the routers, (), times the scored targets, or the sum of their `shares`: in
        the forward that was recorded, or of `sums` over all blocks.

        Like the summed nats beside it, it becomes a mean when all micro-batches' sums are divided by the targets of
        the global batch. Where processes have parts of the samples, their losses sum to that of whole ones."""
        sums, number = self.sums(targets) if sums is None else sums, (targets != IGNORED).sum()
        sent, probability, penalty = sums.split([self.experts, self.experts, 1])
        whole = torch.cat([sent.detach(), number[None], (number if shares is None else shares.sum())[None]]).double()
        if self.group is not None:  # of these there are no gradients
            dist.all_reduce(whole, group=self.group)
        *every, count, share = whole.float().unbind()
        rows = (count * len(self.layers)).clamp(min=1)
        balance = self.experts * (torch.stack(every) / rows) @ (probability / rows)
        losses = torch.stack([balance, penalty[0] / rows]) * count
        self._count(slice(-3, None), torch.cat([losses.detach(), number[None]]))
        return losses @ losses.new_tensor(self._weights) * (share / count.clamp(min=1))

    def _count(self, place: slice, values: Tensor) -> None:
        self._total = self._total.to(values.device)
        self._total[place] += values

    def take(self) -> Tensor:
        """Return sums over the forwards since the last time, (layers * experts + 3,), float64: tokens sent to each
        expert of each layer here, balance losses and z-losses times their targets, targets (where the losses are)."""
        total, self._total = self._total, torch.zeros_like(self._total)
        return total
