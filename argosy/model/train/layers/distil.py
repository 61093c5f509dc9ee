"""Distillation: the divergence of a model's next-token distributions from a teacher's, a chunk of logits at a time."""

from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.train.config import TrainConfig
from argosy.model.train.layers.attention import choose
from argosy.model.train.layers.loss import CHUNK_ROWS, LossModule, wide
from argosy.model.weights.load import load_model


class _LinearDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, taught: Tensor, head: Tensor, shares: Tensor,
                temperature: float, dtype: torch.dtype) -> Tensor:
        size = min(len(weight), len(head))  # rows beyond are no tokens: they round a vocabulary up
        rows, matrix, theirs = (each.to(dtype) for each in (hidden, weight[:size], head[:size]))
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        grad_hidden, grad_weight = torch.empty_like(rows), torch.zeros_like(weight, dtype=wide(weight))
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            own = ((rows[chunk] @ matrix.T).float() / temperature).log_softmax(1)
            wanted = ((taught[chunk].to(dtype) @ theirs.T).float() / temperature).log_softmax(1)
            share, likely = shares[chunk].unsqueeze(1), wanted.exp()
            total += temperature**2 * (likely * (wanted - own) * share).sum()
            slope = ((own.exp() - likely) * (temperature * share)).to(dtype)
            grad_hidden[chunk] = slope @ matrix
            grad_weight[:size] += slope.T @ rows[chunk]
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.hidden_dtype = hidden.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        scaled = grad_hidden.float() * grads[0]  # float16 may not hold a scaled loss
        return scaled.to(ctx.hidden_dtype), grad_weight * grads[0], None, None, None, None, None


def linear_divergence(hidden: Tensor, weight: Tensor, taught: Tensor, head: Tensor, shares: Tensor,
                      temperature: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the summed Kullback-Leibler divergence, (), in nats, of softmax(hidden @ weight.T / temperature) from
    softmax(taught @ head.T / temperature), times temperature^2 (Hinton et al. 2015); differentiable in the first two.

    Args:
        hidden: (tokens, hidden_size) of the student; `taught`: (tokens, another hidden_size) of the teacher.
        weight: (vocabulary, hidden_size) of the student's output layer; `head`: of the teacher's.
        shares: (tokens,), float32: what each token's divergence is multiplied by.
        dtype: of the matrix products; softmax and divergence are float32."""
    with torch.autocast(hidden.device.type, enabled=False):
        return _LinearDivergence.apply(  # type: ignore[no-any-return,no-untyped-call]
            hidden, weight, taught, head, shares, temperature, dtype)


class Teacher:
    """A frozen model beside the one that is trained; no module of it, so that no engine shards or saves it.

    Args:
        module: the student's, on its device.

    Raises InputError: there is no such model, or its tokenizer has other tokens."""

    def __init__(self, config: TrainConfig, module: LossModule, tokenizer: Any) -> None:
        source = config.find_teacher(tokenizer.get_vocab(), len(tokenizer))
        device = next(module.parameters()).device
        model = load_model(source.path, dtype=config.dtype).requires_grad_(False).eval().to(device)
        if (longest := model.config.max_position_embeddings) < config.sequence_length:
            raise InputError(f"teacher={config.teacher} has a context of {longest} tokens, and samples have "
                             f"{config.sequence_length}: lower the length, or name another teacher")
        model.set_attn_implementation(choose(config.attention, device, config.sequence_length))
        self._module = module.around(model).eval()
        self.share, self._temperature = config.teacher_share, config.teacher_temperature

    @torch.no_grad()
    def hidden(self, inputs: Tensor, documents: Tensor | None) -> Tensor:
        """Return the teacher's last hidden states, (samples, length, its hidden_size)."""
        return self._module.hidden(inputs, documents)

    def divergence(self, hidden: Tensor, weight: Tensor, taught: Tensor, shares: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the summed divergence of rows, (tokens, hidden_size), as `linear_divergence` does."""
        head = self._module.model.get_output_embeddings().weight
        return linear_divergence(hidden, weight, taught, head, shares, self._temperature, dtype)
