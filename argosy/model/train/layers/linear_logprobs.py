"""Log-probabilities of tokens under an output layer, without ever holding all logits: they are made chunk by chunk in
the forward and once more in the backward, so that any loss of them can be differentiated."""

from typing import Any

import torch
from torch import Tensor

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.layers.loss import CHUNK_ROWS


class _LinearLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        found = torch.zeros(len(targets), dtype=torch.float32, device=hidden.device)
        entropies, sums = torch.zeros_like(found), torch.zeros_like(found)
        rows, matrix = hidden.to(dtype), weight.to(dtype)
        for start in range(0, len(targets), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            logits = (rows[chunk] @ matrix.T).float() / temperature
            scored, index = targets[chunk] != IGNORED, targets[chunk].clamp(min=0).unsqueeze(1)
            log_z = logits.logsumexp(dim=1)
            found[chunk] = (logits.gather(1, index).squeeze(1) - log_z) * scored
            entropies[chunk] = (log_z - (logits.softmax(dim=1) * logits).sum(dim=1)) * scored
            sums[chunk] = log_z
        ctx.save_for_backward(hidden, weight, targets, sums)
        ctx.settings = temperature, dtype
        ctx.mark_non_differentiable(entropies)
        return found, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, sums = ctx.saved_tensors
        temperature, dtype = ctx.settings
        grad_hidden = torch.empty(hidden.shape, dtype=torch.float32, device=hidden.device)
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        rows, matrix = hidden.to(dtype), weight.to(dtype)
        for start in range(0, len(targets), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            share = (grads[0][chunk] * (targets[chunk] != IGNORED) / temperature).unsqueeze(1)
            logits = (rows[chunk] @ matrix.T).float() / temperature
            slope = (logits - sums[chunk].unsqueeze(1)).exp_().neg_()
            slope.scatter_add_(1, targets[chunk].clamp(min=0).unsqueeze(1), torch.ones_like(share))
            low = slope.mul_(share).to(dtype)
            grad_hidden[chunk] = low @ matrix
            if grad_weight is not None:
                grad_weight += low.T @ rows[chunk]
        return grad_hidden.to(hidden.dtype), grad_weight, None, None, None


def linear_logprobs(
    hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float = 1.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target under softmax(hidden @ weight.T / temperature).

    Args:
        hidden: (tokens, hidden_size).
        weight: (vocabulary, hidden_size).
        targets: (tokens,), int64; IGNORED rows have 0.
        temperature: of the policy that sampled the targets.
        dtype: of the matrix products; the softmax is float32.

    Returns:
        The log-probabilities in nats, (tokens,), float32, differentiable; and the entropies of the distributions, in
        nats, (tokens,), detached, 0 in IGNORED rows."""
    with torch.autocast(hidden.device.type, enabled=False):
        return _LinearLogprobs.apply(hidden, weight, targets, temperature, dtype)  # type: ignore[no-any-return,no-untyped-call]
