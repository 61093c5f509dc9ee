"""State of an optimizer as plain tensors by name: moments of 8 bits are several tensors that act as one."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of all groups; some optimizers keep it as a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def plain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of a parameter as plain tensors: the parts of `exp_avg` are `exp_avg.codes` and so on."""
    found: dict[str, Tensor] = {}
    for kind, value in state.items():
        if _is_several(value):
            found |= {f"{kind}.{part}": getattr(value, part) for part in _parts(value)}
        else:
            found[kind] = value
    return found


def wrapped(made: Mapping[str, Tensor], plain_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inverse of `plain`: what of `made` is several tensors takes the values of its parts over."""
    found: dict[str, Any] = {kind: tensor for kind, tensor in plain_state.items() if "." not in kind}
    for kind, value in made.items():
        if _is_several(value):
            for part in _parts(value):
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


def _parts(value: Any) -> list[str]:
    names: list[str] = value.__tensor_flatten__()[0]
    return names
