"""Cross-entropy and log-probabilities of a causal model's tokens, without ever holding all logits.

The gradient of the logits is made while a chunk's logits are in the cache (the method of Liger Kernel, Hsu et al.
2024, here in plain torch). On a CPU it halves the time that the output layer costs a small model."""

from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.layers.attention import Choice
from argosy.model.train.layers.packed import PackedModel

CHUNK_ROWS = 256
_CACHED = 2**20  # bytes of logits that the softmax of a CPU works on at a time: they stay in its cache
_FEWEST_ROWS = 16  # of them; torch sums a single row in another order, over its threads


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, z_loss: float, dtype: torch.dtype,
                shares: Tensor | None) -> tuple[Tensor, Tensor]:
        need_grad = ctx.needs_input_grad[0]
        in_place = hidden.device.type == "cpu" and dtype == wide(weight)  # to the same bytes
        rows, matrix = hidden.to(dtype), weight.to(dtype)
        nats = torch.zeros(len(targets), dtype=torch.float32, device=hidden.device)
        penalty = torch.zeros((), dtype=torch.float32, device=hidden.device)
        grad_hidden = torch.empty_like(rows) if need_grad else None
        grad_weight = torch.zeros_like(weight, dtype=wide(weight)) if need_grad else None
        for start in range(0, len(targets), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            target = targets[chunk]
            share = (target != IGNORED) * (1.0 if shares is None else shares[chunk])
            logits = (rows[chunk] @ matrix.T).float()
            log_z = _softmax(logits, target, nats[chunk], share, z_loss, need_grad=need_grad)
            if z_loss:
                penalty += (log_z.square() * share).sum()
            if grad_hidden is None or grad_weight is None:
                continue
            low = logits.to(dtype)
            torch.mm(low, matrix, out=grad_hidden[chunk])
            if in_place and len(low) == CHUNK_ROWS:  # a lone row is multiplied in another order
                grad_weight.addmm_(low.T, rows[chunk])
            else:
                grad_weight += low.T @ rows[chunk]
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.hidden_dtype = hidden.dtype
        ctx.mark_non_differentiable(nats)
        return (nats if shares is None else nats * shares).sum() + z_loss * penalty, nats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grads[0]
        if grad_hidden.dtype == torch.float16:  # a scaled loss may exceed its range
            grad_hidden = grad_hidden.float()
        return (grad_hidden * scale).to(ctx.hidden_dtype), grad_weight * scale, None, None, None, None


def wide(weight: Tensor) -> torch.dtype:
    """Return the precision in which gradients of a weight are summed over chunks."""
    return torch.promote_types(weight.dtype, torch.float32)


def _softmax(logits: Tensor, targets: Tensor, nats: Tensor, shares: Tensor, z_loss: float, *,
             need_grad: bool) -> Tensor:
    """Write the nats of each row, (rows,), and in place of `logits`, (rows, vocabulary), their gradient times `shares`,
    (rows,), where that is needed; returns the logarithms of the sums, (rows,).

    Rows do not depend on each other, so that a CPU takes as many at a time as its cache holds."""
    on_cpu = logits.device.type == "cpu"
    rows = max(_FEWEST_ROWS, _CACHED // (4 * logits.shape[1])) if on_cpu else len(logits)
    parts = max(1, len(logits) // rows)
    sums = []
    split = (each.tensor_split(parts) for each in (logits, targets, nats, shares))
    for part, target, found, share in zip(*split, strict=True):
        index, peak = target.clamp(min=0).unsqueeze(1), part.amax(dim=1, keepdim=True)
        goal = part.sub_(peak).gather(1, index).squeeze(1)
        total = part.exp_().sum(dim=1)  # whose terms are the gradient's too
        apart = total.log()
        torch.mul(apart - goal, target != IGNORED, out=found)
        sums.append(log_z := apart + peak.squeeze(1))
        if need_grad:
            part.mul_((share * (1 + 2 * z_loss * log_z) / total).unsqueeze(1))
            part.scatter_add_(1, index, -share.unsqueeze(1))
    return torch.cat(sums)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, z_loss: float = 0.0,
                         dtype: torch.dtype = torch.float32, shares: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of `hidden @ weight.T` against `targets`.

    Args:
        hidden: (tokens, hidden_size).
        weight: (vocabulary, hidden_size).
        targets: (tokens,), int64; IGNORED rows cost nothing.
        z_loss: weight of log(Z)^2.
        dtype: of the matrix products; the softmax is float32.
        shares: (tokens,), float32: what each token's loss is multiplied by in the sum; None is 1.

    Returns:
        The summed loss in nats (differentiable, z-loss included) and the nats of each token, (tokens,), detached."""
    with torch.autocast(hidden.device.type, enabled=False):
        loss, nats = _LinearCrossEntropy.apply(hidden, weight, targets, z_loss, dtype, shares)  # type: ignore[no-untyped-call]
    return loss, nats


class _LinearLogprobs(torch.autograd.Function):
    """Makes chunks of logits in the forward and once more in the backward: any loss of them can be differentiated."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float,
                dtype: torch.dtype) -> tuple[Tensor, Tensor]:
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
        grad_weight = torch.zeros_like(weight, dtype=wide(weight)) if ctx.needs_input_grad[1] else None
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


def linear_logprobs(hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float = 1.0,
                    dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target under softmax(hidden @ weight.T / temperature), the temperature of the
    policy that sampled them; other arguments as of linear_cross_entropy.

    Returns:
        The log-probabilities in nats, (tokens,), float32, differentiable; and the entropies of the distributions, in
        nats, (tokens,), detached, 0 in IGNORED rows."""
    with torch.autocast(hidden.device.type, enabled=False):
        return _LinearLogprobs.apply(hidden, weight, targets, temperature, dtype)  # type: ignore[no-any-return,no-untyped-call]


def sum_by_channel(nats: Tensor, channels: Tensor, count: int) -> Tensor:
    """Return the sums of `nats` by channel, (count,), float64; `channels`: of each of them, 0 to count - 1."""
    index = torch.arange(count, device=nats.device).unsqueeze(1)
    return (nats.double() * (channels.reshape(1, -1) == index)).sum(dim=1)


class LossModule(PackedModel):
    """A causal model whose forward gives losses instead of logits: one pass, nothing of the vocabulary's size kept.

    Args:
        model: a transformers causal model with a decoder and a linear output layer without bias.

    Raises InputError: the output layer has another form; the device has no such attention."""

    def __init__(self, model: Any, channels: int, dtype: torch.dtype, z_loss: float, sequence_length: int,
                 attention: Choice = "auto") -> None:
        head = model.get_output_embeddings()
        if head is None or getattr(head, "bias", None) is not None:
            raise InputError(f"a {model.config.model_type} model has no linear output layer without bias: "
                             "choose model_type llama, qwen3 or mistral")
        super().__init__(model, dtype, sequence_length, attention)
        self.channels = channels
        self._z_loss = z_loss
        self.weights: Tensor | None = None  # of the channels, (channels,), float32; None is 1 each
        self.teacher: Any = None  # whose distributions are learnt beside the targets (argosy.model.train.layers.distil)
        self.skips_ignored = False  # whether no logits are made where a target is IGNORED, as most of a prompt's are

    def forward(self, inputs: Tensor, targets: Tensor, channels: Tensor | None = None,
                documents: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the summed loss in nats (differentiable; while training, with that of routers), and detached nats: by
        channel, (channels,), float64, or of each token, (samples * length,), where no `channels` are given.

        `inputs`, `targets`, `channels`: (samples, length), int64; a target of IGNORED costs nothing. `documents`:
        (samples, length); where given, attention stays within equal numbers."""
        taught = self.teacher.hidden(inputs, documents).flatten(0, 1) if self.teacher and self.training else None
        return self.score(self.hidden(inputs, documents), targets, channels, taught)

    def score(self, hidden: Tensor, targets: Tensor, channels: Tensor | None = None,
              taught: Tensor | None = None, routed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the loss of hidden states, as `forward` does. `taught`: the teacher's, (tokens, its width); `routed`:
        the routers' sums, of all stages of a pipeline."""
        weight = self.model.get_output_embeddings().weight
        rows, goals = hidden.flatten(0, 1), targets.flatten()
        if channels is not None and self.skips_ignored:
            kept = (goals != IGNORED).nonzero().flatten()
            rows, goals, channels = rows[kept], goals[kept], channels.flatten()[kept]
            taught = None if taught is None else taught[kept]
        shares = None if channels is None or self.weights is None else self.weights[channels.flatten()]
        loss, nats = linear_cross_entropy(rows, weight, goals, self._z_loss, self._dtype, shares)
        if taught is not None:
            each = (goals != IGNORED) * (1.0 if shares is None else shares)
            apart = self.teacher.divergence(rows, weight, taught, each, self._dtype)
            loss = (1 - self.teacher.share) * loss + self.teacher.share * apart
        if self.routing and self.training:
            loss = loss + self.routing.loss(targets, None if shares is None else shares * (goals != IGNORED), routed)
        if channels is None:
            return loss, nats
        return loss, sum_by_channel(nats, channels, self.channels)
