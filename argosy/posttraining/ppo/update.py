"""One PPO update: several passes over a rollout."""

from __future__ import annotations

from typing import Any

from argosy.posttraining.kl import k1, k3
from argosy.posttraining.ppo.advantage import generalized_advantages, masked_mean, token_rewards, whiten
from argosy.posttraining.ppo.loss import policy_loss, value_loss
from argosy.posttraining.ppo.rollout import Models, Rollout
from argosy.posttraining.rl_config import RLHFConfig


def update(
    models: Models, rollout: Rollout, optimizer: Any, scheduler: Any, config: RLHFConfig, kl_coef: float, seed: int
) -> dict[str, float]:
    """Change policy and value model by `config.ppo.epochs` passes. Returns metrics under train/ and rlhf/."""
    import torch

    targets = _targets(rollout, config, kl_coef)
    generator = torch.Generator().manual_seed(seed)
    totals: dict[str, float] = {}
    count = config.ppo.epochs * config.ppo.minibatches
    for _ in range(config.ppo.epochs):
        order = torch.randperm(len(rollout.scores), generator=generator)
        for index in order.chunk(config.ppo.minibatches):
            values = _minibatch(models, rollout, targets, index, optimizer, config)
            scheduler.step()
            totals = {name: totals.get(name, 0.0) + value / count for name, value in values.items()}
    return totals | rollout_metrics(rollout)


def rollout_metrics(rollout: Rollout) -> dict[str, float]:
    """Rewards, lengths and divergences of a rollout; rlhf/kl (k3) and rlhf/kl_k1 in nats a token."""
    mask = rollout.answers.mask
    return {
        "rlhf/reward": float(rollout.scores.mean()),
        "rlhf/kl": float(masked_mean(k3(rollout.logprobs, rollout.reference), mask)),
        "rlhf/kl_k1": float(masked_mean(k1(rollout.logprobs, rollout.reference), mask)),
        "rlhf/length": float(mask.sum(1).mean()),
        "rlhf/truncated": float(1 - rollout.ended.mean()),
        **{f"rlhf/reward/{name}": value for name, value in rollout.parts.items()},
    }


def _targets(rollout: Rollout, config: RLHFConfig, kl_coef: float) -> tuple[Any, Any]:
    """(whitened advantages, returns) of the rollout's tokens."""
    ppo, mask = config.ppo, rollout.answers.mask
    scores = rollout.scores - ppo.missing_stop_penalty * (1 - rollout.ended)
    rewards = token_rewards(scores, k1(rollout.logprobs, rollout.reference), mask, kl_coef)
    if ppo.whiten_rewards:
        rewards = whiten(rewards, mask, shift_mean=False)
    advantages, returns = generalized_advantages(rewards, rollout.values, mask, ppo.gamma, ppo.lam)
    return whiten(advantages, mask), returns


def _minibatch(
    models: Models, rollout: Rollout, targets: tuple[Any, Any], index: Any, optimizer: Any, config: RLHFConfig
) -> dict[str, float]:
    """One optimiser step on the rows `index` of the rollout, in micro-batches of equal weight a token."""
    import torch

    all_tokens = rollout.answers.mask[index].sum()
    totals = {"train/loss": 0.0, "train/value_loss": 0.0, "train/clipped": 0.0}
    optimizer.zero_grad()
    for rows in index.split(config.micro_batch_size):
        answers = rollout.answers.rows(rows)
        advantages, returns = (target[rows] for target in targets)
        policy, clipped = policy_loss(
            models.policy_logprobs(answers, config.temperature),
            rollout.logprobs[rows],
            advantages,
            answers.mask,
            config.clip,
        )
        value = value_loss(models.values(answers), rollout.values[rows], returns, answers.mask, config.ppo.value_clip)
        share = answers.mask.sum() / all_tokens
        ((policy + config.ppo.value_coef * value) * share).backward()
        for name, part in zip(totals, (policy, value, clipped), strict=True):
            totals[name] += float(part.detach() * share)
    for model in (models.policy, models.value):
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
    optimizer.step()
    return totals
