"""The losses of reinforcement learning: how a rollout's tokens weigh in them, and modules around the policy and the
value model, which their engines train.

Tokens are those of answers laid end to end, but in the first functions, whose tensors are (answers, T)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from argosy.corpus.tokens.windows import IGNORED
from argosy.model.infer.logprobs import k3
from argosy.model.post.rl.config import LossConfig, RLHFConfig
from argosy.model.post.rl.methods import Outcome, make_method, whiten
from argosy.model.train.layers.attention import Choice
from argosy.model.train.layers.linear_logprobs import linear_logprobs
from argosy.model.train.layers.packed import PackedModel


def advantages_of(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """Return the scaled advantages, (answers, T), and the returns, (answers, T), or None without a value model."""
    found, returns = make_method(config).advantages(outcome, config, kl_coef)
    scale = config.choice("scale")
    if scale == "batch":
        return whiten(found, outcome.mask), returns
    if scale == "group":
        groups = outcome.by_group(config.copies, kl_coef)
        found = found / (groups.std(1, keepdim=True).repeat_interleave(groups.shape[1], 1).reshape(-1, 1) + 1e-4)
    return found, returns


def token_weights(config: RLHFConfig, mask: Any, left_out: Any) -> tuple[Any, Callable[[Any], float]]:
    """Return the weight of each token in the loss, (answers, T), and the function of a minibatch's rows that gives what
    their weighted sum is divided by.

    `left_out`: (answers,), 1 where the answer does not count."""
    counted = mask * (1 - left_out).unsqueeze(1)
    kind = config.choice("normalizer")
    if kind == "token":
        return counted, lambda rows: max(1.0, float(counted[rows].sum()))
    if kind == "constant":
        return counted, lambda rows: float(len(rows) * config.max_new_tokens)
    return counted / mask.sum(1, keepdim=True).clamp(min=1), lambda rows: float(len(rows))


def deductions(config: RLHFConfig, lengths: Any, ended: Any) -> Any:
    """Return what is deducted from each answer's reward for its length, (answers,)."""
    found = config.length.penalty * (1 - ended)
    if soft := config.length.soft_tokens:
        found = found + ((lengths - (config.max_new_tokens - soft)) / soft).clamp(0, 1)
    return found


def clips(loss: LossConfig) -> tuple[float, float]:
    """Return the bounds of a probability ratio."""
    return 1 - loss.clip, 1 + (loss.clip_high or loss.clip)


@dataclass(frozen=True)
class Clipping:
    """Settings of the policy's loss: whose ratio is clipped, to which bounds; the largest importance weight; the weight
    of the divergence in the loss."""

    ratio: str
    low: float
    high: float
    cap: float
    kl_coef: float


def policy_loss(
    logprobs: Tensor, old: Tensor, sampled: Tensor, reference: Tensor, advantages: Tensor, weights: Tensor, *,
    numbers: Tensor, clipping: Clipping,
) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of the tokens' losses (Schulman et al. 2017, eq. 7), and the part of `weights`, (), where
    the clipping decides.

    Args:
        logprobs, old, sampled, reference: (tokens,), under the policy, the policy before the update (NaN: as it is
            now), the sampler, and the reference.
        advantages, weights: (tokens,).
        numbers: (tokens,), int64, 0, 1, ... of each token's answer."""
    now = logprobs.detach()
    old = torch.where(old.isnan(), now, old)
    moved = logprobs - old
    if clipping.ratio != "token":
        count = int(numbers.max()) + 1
        sums = moved.new_zeros(count).index_add(0, numbers, moved)
        if clipping.ratio == "sequence_mean":
            sums = sums / numbers.bincount(minlength=count)
        moved = sums[numbers]
    ratio = moved.exp()
    free = -advantages * ratio
    held = -advantages * ratio.clamp(clipping.low, clipping.high)
    losses = torch.max(free, held) * (old - sampled).exp().clamp(max=clipping.cap)
    if clipping.kl_coef:
        losses = losses + clipping.kl_coef * k3(logprobs, reference)
    return (losses * weights).sum(), ((held > free) * weights).sum().detach()


def value_loss(values: Tensor, old: Tensor, returns: Tensor, weights: Tensor, *, clip: float) -> Tensor:
    """Return the weighted sum of half the squared error; the worse of the value and of the value held near its old
    one."""
    near = old + (values - old).clamp(-clip, clip)
    return 0.5 * (torch.max((values - returns) ** 2, (near - returns) ** 2) * weights).sum()


class PolicyLoss(PackedModel):
    """A policy whose forward gives log-probabilities of answers, or their loss.

    Args:
        temperature: of the policy that samples; part of its log-probabilities (Huang et al. 2024, detail 12)."""

    def __init__(self, model: Any, clipping: Clipping, temperature: float, dtype: torch.dtype, length: int,
                 attention: Choice = "auto") -> None:
        super().__init__(model, dtype, length, attention)
        self._clipping, self._temperature = clipping, temperature

    def forward(self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor,
                facts: Tensor | None = None) -> Any:
        """Return the summed loss of the tokens, and the sums of loss, clipping, entropy and tokens, (4,).

        Args:
            ids, targets, documents, positions: as `Packed`.
            facts: (5, tokens): `old`, `sampled`, `reference`, `advantages` and `weights` of policy_loss; None: return
                the tokens' log-probabilities instead, (tokens,)."""
        places = (targets.flatten() != IGNORED).nonzero().squeeze(1)  # no logits for the others
        hidden = self.hidden(ids, documents, positions).flatten(0, 1)[places]
        weight = self.model.get_output_embeddings().weight
        found, entropies = linear_logprobs(hidden, weight, targets.flatten()[places], self._temperature, self._dtype)
        if facts is None:
            return found
        numbers = documents.flatten()[places]
        loss, clipped = policy_loss(found, *facts.unbind(), numbers=numbers, clipping=self._clipping)
        sums = torch.stack([loss.detach(), clipped, entropies.sum(), torch.ones_like(found).sum()]).double()
        return loss + self.auxiliary(ids, facts[4].sum()), sums


class ValueLoss(PackedModel):
    """A model with a head of one number, `score`, whose forward gives the values of the states before answers' tokens,
    or their loss."""

    def __init__(self, model: Any, clip: float, dtype: torch.dtype, length: int, attention: Choice = "auto") -> None:
        super().__init__(model, dtype, length, attention)
        self._clip = clip

    def forward(self, ids: Tensor, targets: Tensor, documents: Tensor, positions: Tensor,
                facts: Tensor | None = None) -> Any:
        """Return the summed loss of the tokens, and that sum, (1,).

        `facts`: (3, tokens): old values, returns and weights; None: return the values instead, (tokens,)."""
        places = (targets.flatten() != IGNORED).nonzero().squeeze(1)
        states = self.hidden(ids, documents, positions).flatten(0, 1)[places]
        values = self.model.score(states.to(self.model.score.weight.dtype)).float().squeeze(1)
        if facts is None:
            return values
        loss = value_loss(values, *facts.unbind(), clip=self._clip)
        return loss + self.auxiliary(ids, facts[2].sum()), loss.detach().double()[None]
