"""Optimizers, their parameter groups, learning-rate schedules, and states as plain tensors by name.

Muon or GaLore for the matrices, AdamW for the rest, as one optimizer. Jordan et al. 2024, "Muon: an optimizer for
hidden layers in neural networks"; the update is scaled to AdamW's size (0.2 * sqrt(max(rows, columns)), Liu et al.
2025, "Muon is scalable for LLM training"), so that one learning rate serves both. Matrices of one shape are
orthogonalised in one batched product, which is what makes it cheap on a CPU."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim.adamw import adamw as update_adamw

from argosy.model.train.config import TrainConfig
from argosy.model.train.optim.narrow import AdamWBF16, make_8bit
from argosy.model.train.parallelism import Group, local_part

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
COMPARED = 2**15  # numbers of a weight by which the size of its update is known


class MatrixAdamW(torch.optim.AdamW, ABC):
    """AdamW whose groups with `matrices=True` are updated in a way of their own instead."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        every = self.param_groups
        self.param_groups = [group for group in every if not group.get("matrices")]
        try:
            super().step()
        finally:
            self.param_groups = every
        for group in every:
            if group.get("matrices"):
                self._update_matrices(group)

    @abstractmethod
    def _update_matrices(self, group: dict[str, Any]) -> None:
        """Update the matrices of a group."""


class MuonAdamW(MatrixAdamW):
    """Muon for the matrices, in products of `dtype`."""

    def __init__(self, groups: Iterable[dict[str, Any]], dtype: torch.dtype = torch.bfloat16, **adamw: Any) -> None:
        super().__init__(groups, **adamw)
        self._dtype = dtype

    def _update_matrices(self, group: dict[str, Any]) -> None:
        by_shape: dict[tuple[int, ...], list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(tuple(parameter.shape), []).append(parameter)
        for shape, parameters in by_shape.items():
            momenta = [local_part(self._momentum(parameter)) for parameter in parameters]
            grads = [local_part(parameter.grad) for parameter in parameters if parameter.grad is not None]
            torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
            nesterov = torch.stack(_whole(torch._foreach_lerp(grads, momenta, MOMENTUM), parameters))
            # each expert's matrix by itself
            update = orthogonalize(nesterov.flatten(0, -3).to(self._dtype)).view_as(nesterov)
            updates = _parts(update.to(parameters[0].dtype).unbind(), parameters)
            weights = [local_part(parameter) for parameter in parameters]
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, updates, alpha=-group["lr"] * 0.2 * max(shape[-2:]) ** 0.5)

    def _momentum(self, parameter: Tensor) -> Tensor:
        if "momentum_buffer" not in (state := self.state[parameter]):
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer: Tensor = state["momentum_buffer"]
        return buffer


class GaLoreAdamW(MatrixAdamW):
    """AdamW for the matrices in the space of a gradient's largest singular vectors (Zhao et al. 2024): their groups
    have the fields of GaLoreConfig."""

    def _update_matrices(self, group: dict[str, Any]) -> None:
        for parameter in (each for each in group["params"] if each.grad is not None):
            update = _low_rank(parameter.grad, self.state[parameter], group)
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=group["scale"])


def _low_rank(gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> Tensor:
    """Return AdamW's update by the projected gradient, projected back; each expert's matrix by itself."""
    tall = gradient.shape[-2] >= gradient.shape[-1]  # its columns are projected, the shorter side
    if int(state.get("step", 0)) % group["update_gap"] == 0:
        finite = gradient.nan_to_num(0.0, 0.0, 0.0)  # the loss tells of numbers that are not, as with other optimizers
        left, _, right = torch.linalg.svd(finite, full_matrices=False)
        rank = math.ceil(group["rank"] * min(gradient.shape[-2:]))
        state["projector"] = (right.mT if tall else left)[..., :rank].contiguous()
    projector = state["projector"]
    low = gradient @ projector if tall else projector.mT @ gradient
    if "step" not in state:
        state |= {"step": low.new_zeros(()), "exp_avg": torch.zeros_like(low), "exp_avg_sq": torch.zeros_like(low)}
    update, (beta1, beta2) = torch.zeros_like(low), group["betas"]
    update_adamw(
        [update], [low], [state["exp_avg"]], [state["exp_avg_sq"]], [], [state["step"]], fused=True, amsgrad=False,
        beta1=beta1, beta2=beta2, lr=group["lr"], weight_decay=0.0, eps=group["eps"], maximize=False)
    return update @ projector.mT if tall else projector @ update


def _whole(locals_: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
    """Put matrices together, of which the processes hold what they hold of `parameters`."""
    return [DTensor.from_local(local, each.device_mesh, each.placements, shape=each.shape, stride=each.stride())
            .full_tensor() if isinstance(each, DTensor) else local
            for local, each in zip(locals_, parameters, strict=True)]


def _parts(wholes: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
    return [distribute_tensor(whole, each.device_mesh, each.placements, src_data_rank=None).to_local()
            if isinstance(each, DTensor) else whole for whole, each in zip(wholes, parameters, strict=True)]


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return roughly the nearest semi-orthogonal matrices, (n, rows, columns), by Newton-Schulz: singular values are in
    about [0.7, 1.2]; bfloat16 is enough (Jordan et al. 2024)."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def make_optimizer(model: Any, config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimizer that the config names.

    Only the hidden layers' matrices decay: decaying norms and embeddings costs stability (OLMo 2, 2025).

    Raises InputError: its package is not installed."""
    embedding = {id(parameter) for module in model.modules() if isinstance(module, nn.Embedding)
                 for parameter in module.parameters()}
    if (head := model.get_output_embeddings()) is not None:  # a stage of a pipeline may have none
        embedding.add(id(head.weight))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    vectors = {id(p) for p in parameters if len(getattr(p, "ds_shape", p.shape)) < 2}  # DeepSpeed's, in parts
    matrices = [p for p in parameters if id(p) not in vectors | embedding]  # of experts too, in one tensor
    others = [p for p in parameters if id(p) in vectors | embedding]
    adamw: dict[str, Any] = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "fused": True}
    groups = _rated(model, config, [{"params": matrices, "weight_decay": config.weight_decay, "matrices": True},
                                    {"params": others, "weight_decay": 0.0}])
    if config.optimizer == "muon":
        # A phase in float32 may be on a CPU without instructions for bfloat16, where that takes three times as long.
        return MuonAdamW(groups, torch.float32 if config.dtype == "float32" else torch.bfloat16, **adamw)
    if config.optimizer == "galore":
        return GaLoreAdamW([{**group, **config.galore.model_dump()} for group in groups], **adamw)
    if config.optimizer == "adafactor":  # its rate is a share of the root mean square of a parameter
        return torch.optim.Adafactor(groups, lr=config.learning_rate)
    if config.optimizer == "adamw_8bit":
        return make_8bit(groups, config)
    if config.optimizer == "adamw_bf16":
        return AdamWBF16(groups, config.rounding, config.seed, lr=config.learning_rate, betas=adamw["betas"])
    return torch.optim.AdamW(groups, **adamw)


def _rated(model: Any, config: TrainConfig, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the matrices B of adapters into groups of their own, of `lora.rate_ratio` times the learning rate."""
    if not config.lora or config.lora.rate_ratio == 1:
        return groups
    second = {id(parameter) for name, parameter in model.named_parameters() if ".lora_B." in name}
    return [{**group, "params": chosen, "rate": rate} for group in groups
            for own, rate in ((False, 1.0), (True, config.lora.rate_ratio))
            if (chosen := [each for each in group["params"] if (id(each) in second) is own])]


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of step `step` (0, 1, ..., config.steps - 1).

    Linear warm-up, then the decay: no step is wasted on a rate of 0 at either end, so it equals transformers'
    schedules of `warmup + 1` and `steps + 1` steps at `step + 1`."""
    warmup = min(math.ceil(config.warmup_tokens / config.tokens_per_step), config.steps - 1)
    if step < warmup:
        return config.learning_rate * (step + 1) / (warmup + 1)
    progress = (step - warmup) / (config.steps - warmup)  # in [0, 1)
    floor = config.final_learning_rate
    return config.learning_rate * (floor + (1 - floor) * _decay(config, progress))


def _decay(config: TrainConfig, progress: float) -> float:
    """Return 1 down to 0 as `progress` goes from 0 to 1."""
    if config.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if config.schedule == "linear":
        return 1 - progress
    if config.schedule == "wsd":  # Hu et al. 2024, MiniCPM: warm-up, stable, decay
        return min(1.0, (1 - progress) / config.decay_fraction)
    return 1.0


class UpdateSize:
    """Size of an update, the same in each process: the norm of the weights' change over their norm before.

    Of a large weight some rows are compared, evenly spaced in the whole one, of ZeRO-3's flat parts some numbers: time
    and memory do not grow with the model, but a few rows of an embedding that go wrong alone are not seen.

    Args:
        places: where a process's part of each weight begins, the whole one's shape, and how many processes hold it.

    Attributes:
        last: the size of the last update, ()."""

    def __init__(self, group: Group, places: Iterable[tuple[Sequence[int], Sequence[int], int]]) -> None:
        self._group, self.last = group, torch.zeros((), device=group.device)
        self._rows, shares = list[slice](), list[float]()
        for start, shape, copies in places:
            count = math.prod(shape[:-1] or shape)
            step = min(max(1, math.prod(shape) // COMPARED), count)
            first = start[0] * math.prod(shape[1:-1]) if shape else 0
            self._rows.append(slice(-first % step, None, step))
            shares.append(count / -(-count // step) / copies)
        self._shares = torch.tensor(shares, dtype=torch.float64, device=group.device)

    @contextmanager
    def over(self, parts: Sequence[Tensor]) -> Iterator[None]:
        """Measure what changes inside of these parts of the weights."""
        rows = [(part.flatten(0, -2) if part.ndim > 1 else part.view(-1, 1))[some]
                for part, some in zip(parts, self._rows, strict=True)]
        before = [each.to(torch.promote_types(each.dtype, torch.float32), copy=True) for each in rows]
        whole = torch._foreach_norm(before)
        yield
        torch._foreach_sub_(before, rows)
        norms = torch.stack([*torch._foreach_norm(before), *whole])
        change, size = self._group.sum((norms.to(self._shares).view(2, -1).square() * self._shares).sum(1))
        self.last = (change / torch.where(size > 0, size, 1.0)).sqrt()


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of all groups, of which one may have `rate` times it; some keep it as a tensor."""
    for group in optimizer.param_groups:
        own = learning_rate * group.get("rate", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def plain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of a parameter as plain tensors: the parts of `exp_avg` are `exp_avg.codes` and so on."""
    found: dict[str, Tensor] = {}
    for kind, value in state.items():
        if _is_several(value):
            found |= {f"{kind}.{part}": getattr(value, part) for part in _tensors_of(value)}
        else:
            found[kind] = value
    return found


def wrapped(made: Mapping[str, Tensor], plain_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inverse of `plain`: what of `made` is several tensors takes the values of its parts over."""
    found: dict[str, Any] = {kind: tensor for kind, tensor in plain_state.items() if "." not in kind}
    for kind, value in made.items():
        if _is_several(value):
            for part in _tensors_of(value):
                getattr(value, part).copy_(plain_state[f"{kind}.{part}"])
            found[kind] = value
    return found


@torch.no_grad()
def make_state(optimizer: torch.optim.Optimizer) -> None:
    """Have an optimizer make its state, by a step of learning rate 0 and gradients of 0, which changes no weight."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    set_rate(optimizer, 0.0)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = torch.full_like(group["lr"], rate) if isinstance(group["lr"], Tensor) else rate


def _is_several(value: Any) -> bool:
    return hasattr(value, "__tensor_flatten__") and not isinstance(value, DTensor)


def _tensors_of(value: Any) -> list[str]:
    names: list[str] = value.__tensor_flatten__()[0]
    return names
