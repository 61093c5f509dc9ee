"""The advantages of each method of reinforcement learning, and the weights of tokens in its loss.

Tensors are (answers, T), a rollout's answers in rows; `mask` is 1 on an answer's tokens, which are one after the other,
anywhere in the row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from argosy.model.post.rl.config import LossConfig, RLHFConfig


@dataclass(frozen=True)
class Outcome:
    """Inputs of the advantages of a rollout.

    Attributes:
        scores: (answers,), the weighted rewards.
        kl: (answers, T), log p - log q of the sampled tokens; 0 without a reference or where it is in the loss.
        values: (answers, T), of the states before each token; None: there is no value model."""

    scores: Any
    kl: Any
    mask: Any
    values: Any = None


Advantages = Callable[[Outcome, RLHFConfig, float], tuple[Any, Any]]


def masked_mean(values: Any, mask: Any) -> Any:
    """Return the mean of the values where `mask` is 1."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def whiten(values: Any, mask: Any, *, shift_mean: bool = True) -> Any:
    """Scale to variance 1, and shift to mean 0 if `shift_mean`, over the masked positions; 0 elsewhere."""
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask)
    whitened = (values - mean) * (variance + 1e-8).rsqrt()
    return (whitened if shift_mean else whitened + mean) * mask


def token_rewards(scores: Any, kl: Any, mask: Any, kl_coef: float) -> Any:
    """Return -kl_coef * KL at each token, plus the answer's score at its last token (Ouyang et al. 2022, eq. 2).

    `scores`: (answers,). `kl`: log p - log q of the sampled tokens."""
    rewards = -kl_coef * kl * mask
    last = (mask * torch.arange(1, mask.size(1) + 1, device=mask.device)).argmax(1)
    rewards[torch.arange(len(scores), device=rewards.device), last] += scores
    return rewards


def generalized_advantages(rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> tuple[Any, Any]:
    """Return (advantages, returns) by generalised advantage estimation (Schulman et al. 2016).

    The answer's end is terminal: the value after its last token is 0, whether it stopped or was cut."""
    advantages = torch.zeros_like(rewards)
    carried = torch.zeros_like(rewards[:, 0])
    following = torch.zeros_like(carried)
    for at in reversed(range(rewards.size(1))):
        delta = rewards[:, at] + gamma * following - values[:, at]
        carried = (delta + gamma * lam * carried) * mask[:, at]
        advantages[:, at] = carried
        following = values[:, at] * mask[:, at]
    return advantages, (advantages + values) * mask


def _ppo(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """Return the generalised advantages, and the returns that the value model learns."""
    rewards = token_rewards(outcome.scores, outcome.kl, outcome.mask, kl_coef)
    if config.ppo.whiten_rewards:
        rewards = whiten(rewards, outcome.mask, shift_mean=False)
    return generalized_advantages(rewards, outcome.values, outcome.mask, config.ppo.gamma, config.ppo.lam)


def _returns(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """Return what follows each token: the score, and the divergence from that token on (REINFORCE++, Hu 2025)."""
    rewards = token_rewards(outcome.scores, outcome.kl, outcome.mask, kl_coef)
    return rewards.flip(1).cumsum(1).flip(1) * outcome.mask, None


def _group(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """Return how far each score is above the mean of its group."""
    groups = _by_group(outcome, config, kl_coef)
    return _spread(groups - groups.mean(1, keepdim=True), outcome.mask), None


def _leave_one_out(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """Return how far each score is above the mean of the others of its group."""
    groups = _by_group(outcome, config, kl_coef)
    others = (groups.sum(1, keepdim=True) - groups) / (groups.shape[1] - 1)
    return _spread(groups - others, outcome.mask), None


def _by_group(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> Any:
    scores = outcome.scores - kl_coef * (outcome.kl * outcome.mask).sum(1)
    return scores.view(-1, config.group.size)


def _spread(advantages: Any, mask: Any) -> Any:
    return advantages.reshape(-1, 1) * mask


ADVANTAGES: dict[str, Advantages] = {"ppo": _ppo, "grpo": _group, "rloo": _leave_one_out, "reinforce++": _returns}


def advantages_of(outcome: Outcome, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """Return the scaled advantages, (answers, T), and the returns, (answers, T), or None without a value model."""
    found, returns = ADVANTAGES[config.method](outcome, config, kl_coef)
    scale = config.choice("scale")
    if scale == "batch":
        return whiten(found, outcome.mask), returns
    if scale == "group":
        groups = _by_group(outcome, config, kl_coef)
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
