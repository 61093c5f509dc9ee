"""Output layer and cross-entropy in one pass over chunks of rows, without ever holding all logits.

The gradient of the logits is made while a chunk's logits are in the cache (the method of Liger Kernel, Hsu et al.
2024, here in plain torch). On a CPU it halves the time that the output layer costs a small model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from argosy.tokens.windows import IGNORED

CHUNK_ROWS = 256


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, z_loss: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        need_grad = ctx.needs_input_grad[0]
        rows, matrix = hidden.to(dtype), weight.to(dtype)
        nats = torch.zeros(len(targets), dtype=torch.float32, device=hidden.device)
        penalty = torch.zeros((), dtype=torch.float32, device=hidden.device)
        grad_hidden = torch.empty_like(rows) if need_grad else None
        grad_weight = torch.zeros_like(weight) if need_grad else None
        for start in range(0, len(targets), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            target = targets[chunk]
            scored = target != IGNORED
            index = target.clamp(min=0).unsqueeze(1)
            logits = (rows[chunk] @ matrix.T).float()
            log_z = logits.logsumexp(dim=1)
            nats[chunk] = (log_z - logits.gather(1, index).squeeze(1)) * scored
            if z_loss:
                penalty += (log_z.square() * scored).sum()
            if grad_hidden is None or grad_weight is None:
                continue
            grad = logits.sub_(log_z.unsqueeze(1)).exp_()
            if z_loss:
                grad *= (1 + 2 * z_loss * log_z).unsqueeze(1)
            grad.scatter_add_(1, index, grad.new_full(index.shape, -1.0))
            low = (grad.mul_(scored.unsqueeze(1))).to(dtype)
            torch.mm(low, matrix, out=grad_hidden[chunk])
            grad_weight += low.T @ rows[chunk]
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.hidden_dtype = hidden.dtype
        ctx.mark_non_differentiable(nats)
        return nats.sum() + z_loss * penalty, nats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grads[0]
        return (grad_hidden * scale).to(ctx.hidden_dtype), grad_weight * scale, None, None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, z_loss: float = 0.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of `hidden @ weight.T` against `targets`.

    Args:
        hidden: (tokens, hidden_size).
        weight: (vocabulary, hidden_size).
        targets: (tokens,), int64; IGNORED rows cost nothing.
        z_loss: weight of log(Z)^2.
        dtype: of the matrix products; the softmax is float32.

    Returns:
        The summed loss in nats (differentiable, z-loss included) and the nats of each token, (tokens,), detached.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        loss, nats = _LinearCrossEntropy.apply(hidden, weight, targets, z_loss, dtype)  # type: ignore[no-untyped-call]
    return loss, nats
