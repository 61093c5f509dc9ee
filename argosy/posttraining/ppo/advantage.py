"""Rewards of tokens, advantages and returns.

Tensors are (answers, T); `mask` is 1 on an answer's tokens, which are one after the other, anywhere in the row.
"""

from __future__ import annotations

from typing import Any


def masked_mean(values: Any, mask: Any) -> Any:
    """Mean of the values where `mask` is 1."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def whiten(values: Any, mask: Any, shift_mean: bool = True) -> Any:
    """Values of variance 1, and of mean 0 if `shift_mean`, over the masked positions; 0 elsewhere."""
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask)
    whitened = (values - mean) * (variance + 1e-8).rsqrt()
    return (whitened if shift_mean else whitened + mean) * mask


def token_rewards(scores: Any, kl: Any, mask: Any, kl_coef: float) -> Any:
    """-kl_coef * KL at each token, plus the answer's score at its last token (Ouyang et al. 2022, eq. 2).

    Args:
        scores: (answers,).
        kl: log p - log q of the sampled tokens.
    """
    import torch

    rewards = -kl_coef * kl * mask
    last = (mask * torch.arange(1, mask.size(1) + 1, device=mask.device)).argmax(1)
    rows = torch.arange(len(scores), device=rewards.device)
    rewards[rows, last] += scores
    return rewards


def generalized_advantages(rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> tuple[Any, Any]:
    """(advantages, returns) by generalised advantage estimation (Schulman et al. 2016).

    The answer's end is terminal: the value after its last token is 0, whether it stopped or was cut.
    """
    import torch

    advantages = torch.zeros_like(rewards)
    carried = torch.zeros_like(rewards[:, 0])
    following = torch.zeros_like(carried)
    for at in reversed(range(rewards.size(1))):
        delta = rewards[:, at] + gamma * following - values[:, at]
        carried = (delta + gamma * lam * carried) * mask[:, at]
        advantages[:, at] = carried
        following = values[:, at] * mask[:, at]
    return advantages, (advantages + values) * mask
