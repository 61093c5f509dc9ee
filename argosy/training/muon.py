"""Muon for the matrices, AdamW for the rest, as one optimizer.

Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; the update is scaled to AdamW's size
(0.2 * sqrt(max(rows, columns)), Liu et al. 2025, "Muon is scalable for LLM training"), so that one learning rate
serves both. Matrices of one shape are orthogonalised in one batched product, which is what makes it cheap on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class MuonAdamW(torch.optim.AdamW):
    """AdamW whose groups with `muon=True` hold matrices that are updated by Muon instead."""

    def __init__(self, groups: Iterable[dict[str, Any]], **adamw: Any) -> None:
        super().__init__([{"muon": False, **group} for group in groups], **adamw)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        every = self.param_groups
        self.param_groups = [group for group in every if not group["muon"]]
        try:
            super().step()
        finally:
            self.param_groups = every
        for group in every:
            if group["muon"]:
                self._update_matrices(group)

    def _update_matrices(self, group: dict[str, Any]) -> None:
        by_shape: dict[tuple[int, ...], list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(tuple(parameter.shape), []).append(parameter)
        for shape, parameters in by_shape.items():
            momenta = [self._momentum(parameter) for parameter in parameters]
            grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
            torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
            nesterov = torch._foreach_lerp(grads, momenta, MOMENTUM)
            updates = orthogonalize(torch.stack(nesterov)).to(parameters[0].dtype).unbind()
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer: Tensor = state["momentum_buffer"]
        return buffer


def orthogonalize(matrices: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: Newton-Schulz in bfloat16.

    Args:
        matrices: (n, rows, columns).

    Returns:
        The same shape, bfloat16; singular values are in about [0.7, 1.2].
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
