"""AdamW in fewer bits: with moments of 8 (torchao's), or with all in bfloat16 and no float32 copy of the weights.

Rounding to bfloat16 would swallow most updates, which are below half of a weight's last place. Zamirai et al. 2020,
"Revisiting BFloat16 training", keep what it takes (Kahan's sum) or round at random, up as often as the number is near
(Gupta et al. 2015)."""

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.core.step.machine import missing
from argosy.model.train.blocks import no_compiler
from argosy.model.train.config import TrainConfig
from argosy.model.train.parallelism import local_part

CHUNK = 2**24  # numbers of a weight that are float32 at once
_TOP, _ODD = -(2**16), -1640531535  # the bits of a float32 number that bfloat16 has; 2^32 over the golden ratio


class AdamWBF16(torch.optim.Optimizer):
    """AdamW whose weights, gradients and moments are bfloat16; an update is computed in float32 and rounded once.

    The mean of squared gradients is rounded at random with either `rounding`: to nearest it would never fall, as a step
    of 1 - beta2 = 0.001 is a quarter of its last place. What is drawn is a hash of seed, step, weight and place in the
    whole weight, so that it is the same after a resumption and over layouts.

    `located`: of each parameter its name, where the part that is here begins in the whole one, and that one's shape."""

    def __init__(self, groups: Any, rounding: str, seed: int, **adamw: Any) -> None:
        super().__init__(groups, {"eps": 1e-8, **adamw})
        self._seed = seed
        self._kinds = ("exp_avg", "exp_avg_sq", *(("compensation",) if rounding == "kahan" else ()))
        self.located: Mapping[Any, tuple[str, Sequence[int], Sequence[int]]] = {}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in (each for each in group["params"] if each.grad is not None):
                if not (state := self.state[parameter]):
                    state |= {kind: torch.zeros_like(parameter) for kind in self._kinds}
                    state["step"] = torch.zeros((), device=parameter.device)
                state["step"] += 1
                self._update(parameter, state, group)

    def _update(self, parameter: Any, state: Mapping[str, Tensor], group: Mapping[str, Any]) -> None:
        name, start, shape = self.located[parameter]
        held = [local_part(each) for each in (parameter, parameter.grad, *(state[kind] for kind in self._kinds))]
        rows = max(1, CHUNK // max(1, held[0][:1].numel()))
        key = _mixed(state["step"].int() * _ODD ^ crc32(f"{self._seed}/{name}".encode()) - 2**31)
        for number, pieces in enumerate(zip(*(each.split(rows) for each in held), strict=True)):
            at = start[0] + number * rows, *start[1:]
            _step(pieces, _mixed(_places(pieces[0], at, shape) * _ODD + key), state["step"], group)


def _step(held: Sequence[Tensor], bits: Tensor, step: Tensor, group: Mapping[str, Any]) -> None:
    """Update a piece of a weight, its moments and its compensation, where there is one. `bits`: 32 random ones each."""
    weight, gradient, mean, square, *rest = (each.float() for each in held)
    (beta1, beta2), rate = group["betas"], group["lr"]
    mean.lerp_(gradient, 1 - beta1)
    square.lerp_(gradient.square_(), 1 - beta2)
    change = mean / (1 - beta1**step) / (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
    exact = (weight + rest[0] if rest else weight).mul_(1 - rate * group["weight_decay"]).sub_(change, alpha=rate)
    held[2].copy_(mean)
    held[3].copy_(rounded(square, bits >> 16 & 0xFFFF))
    held[0].copy_(exact if rest else rounded(exact, bits & 0xFFFF))
    if rest:
        held[4].copy_(exact - held[0])


def rounded(numbers: Tensor, bits: Tensor) -> Tensor:
    """Round float32 `numbers` up or down to those of bfloat16, so that the mean over all `bits`, 16 random ones of each
    (int32), is the number itself."""
    made = (numbers.view(torch.int32) + bits & _TOP).view(torch.float32)
    return torch.where(numbers.isfinite(), made, numbers)  # what is not a number would become one


def _places(part: Tensor, start: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Number the elements of a part as in the whole tensor, int32; beyond 2^32 numbers come again."""
    found, stride = torch.zeros((), dtype=torch.int32, device=part.device), 1
    for after, (first, size, whole) in enumerate(zip(start[::-1], part.shape[::-1], shape[::-1], strict=True)):
        own = torch.arange(first, first + size, device=part.device) * stride
        found, stride = found + own.int().view(-1, *(1,) * after), stride * whole
    return found


def _mixed(numbers: Tensor) -> Tensor:
    """Hash int32 numbers to 32 bits each (the last steps of MurmurHash3, Appleby 2011)."""
    for shift, factor in ((16, -2048144789), (13, -1028477387)):
        numbers = (numbers ^ (numbers >> shift & (1 << 32 - shift) - 1)) * factor
    return numbers ^ (numbers >> 16 & 0xFFFF)


def make_8bit(groups: list[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    """Make torchao's AdamW with moments of 8 bits. Raises InputError: it, or a compiler, is not installed."""
    if problem := missing({"optimizer": config.optimizer}, "torchao"):
        raise InputError(problem)
    [device, *_] = {each.device for group in groups for each in group["params"]}
    if problem := no_compiler(device):  # it compiles its update
        raise InputError(f"optimizer=adamw_8bit: {problem}; or set optimizer=adafactor")
    from torchao.optim import AdamW8bit

    made: torch.optim.Optimizer = AdamW8bit(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2))
    return made
