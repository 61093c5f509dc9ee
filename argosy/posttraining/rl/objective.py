"""PPO's objective and its update: rewards of tokens, advantages, clipped losses, several passes over a rollout.

Tensors are (answers, T); `mask` is 1 on an answer's tokens, which are one after the other, anywhere in the row."""

from dataclasses import dataclass
from typing import Any

import torch

from argosy.models.logprobs import k1, k3
from argosy.posttraining.rl.config import RLHFConfig
from argosy.posttraining.rl.rollout import Models, Rollout
from argosy.training.parallel import Group

ALONE = Group()


def masked_mean(values: Any, mask: Any, group: Group = ALONE) -> Any:
    """Return the mean of the values where `mask` is 1, in all processes of `group`."""
    return group.sum((values * mask).sum()) / group.sum(mask.sum()).clamp(min=1)


def whiten(values: Any, mask: Any, group: Group = ALONE, *, shift_mean: bool = True) -> Any:
    """Scale to variance 1, and shift to mean 0 if `shift_mean`, over the masked positions; 0 elsewhere."""
    mean = masked_mean(values, mask, group)
    variance = masked_mean((values - mean) ** 2, mask, group)
    whitened = (values - mean) * (variance + 1e-8).rsqrt()
    return (whitened if shift_mean else whitened + mean) * mask


def token_rewards(scores: Any, kl: Any, mask: Any, kl_coef: float) -> Any:
    """Return -kl_coef * KL at each token, plus the answer's score at its last token (Ouyang et al. 2022, eq. 2).

    `scores`: (answers,). `kl`: log p - log q of the sampled tokens."""
    rewards = -kl_coef * kl * mask
    last = (mask * torch.arange(1, mask.size(1) + 1, device=mask.device)).argmax(1)
    rows = torch.arange(len(scores), device=rewards.device)
    rewards[rows, last] += scores
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


def policy_loss(logprobs: Any, old_logprobs: Any, advantages: Any, mask: Any, clip: float) -> tuple[Any, Any]:
    """Return (loss, part of the tokens where the clipping decides) (Schulman et al. 2017, eq. 7)."""
    ratio = ((logprobs - old_logprobs) * mask).exp()
    free = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip, 1 + clip)
    return masked_mean(torch.max(free, clipped), mask), masked_mean((clipped > free).float(), mask)


def value_loss(values: Any, old_values: Any, returns: Any, mask: Any, clip: float) -> Any:
    """Return half the squared error; the worse of the value and of the value held near its old one."""
    near = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * masked_mean(torch.max((values - returns) ** 2, (near - returns) ** 2), mask)


@dataclass
class KLController:
    """The KL coefficient; steered to `target` nats a token if that is above 0 (Ziegler et al. 2019, sec. 2.2)."""

    coef: float
    target: float
    horizon: int

    def update(self, kl: float, answers: int) -> None:
        """Move the coefficient after a batch of `answers` whose mean divergence is `kl`."""
        if self.target:
            error = min(max(kl / self.target - 1, -0.2), 0.2)
            self.coef *= 1 + error * answers / self.horizon


def update(
    models: Models, rollout: Rollout, optimizer: Any, scheduler: Any, config: RLHFConfig, kl_coef: float, seed: int,
    group: Group = ALONE,
) -> dict[str, float]:
    """Change policy and value model by `config.ppo.epochs` passes over this process's rollout and those of the others.

    Returns:
        Metrics under train/ and rlhf/, of all processes."""
    targets = _targets(rollout, config, kl_coef, group)
    generator = torch.Generator().manual_seed(seed)
    totals: dict[str, float] = {}
    count = config.ppo.epochs * config.ppo.minibatches
    for _ in range(config.ppo.epochs):
        order = torch.randperm(len(rollout.scores), generator=generator)
        for index in order.chunk(config.ppo.minibatches):
            values = _minibatch(models, rollout, targets, index, optimizer, config, group)
            scheduler.step()
            totals = {name: totals.get(name, 0.0) + value / count for name, value in values.items()}
    return group.sum_values(totals) | rollout_metrics(rollout, group)


def rollout_metrics(rollout: Rollout, group: Group = ALONE) -> dict[str, float]:
    """Return rewards, lengths and divergences of a rollout; rlhf/kl (k3) and rlhf/kl_k1 in nats a token."""
    mask = rollout.answers.mask
    means = {  # each process has as many answers
        "rlhf/reward": float(rollout.scores.mean()),
        "rlhf/length": float(mask.sum(1).mean()),
        "rlhf/truncated": float(1 - rollout.ended.mean()),
        **{f"rlhf/reward/{name}": value for name, value in rollout.parts.items()},
    }
    return {
        **{name: value / group.world for name, value in group.sum_values(means).items()},
        "rlhf/kl": float(masked_mean(k3(rollout.logprobs, rollout.reference), mask, group)),
        "rlhf/kl_k1": float(masked_mean(k1(rollout.logprobs, rollout.reference), mask, group)),
    }


def _targets(rollout: Rollout, config: RLHFConfig, kl_coef: float, group: Group) -> tuple[Any, Any]:
    """Return (whitened advantages, returns) of the rollout's tokens."""
    ppo, mask = config.ppo, rollout.answers.mask
    scores = rollout.scores - ppo.missing_stop_penalty * (1 - rollout.ended)
    rewards = token_rewards(scores, k1(rollout.logprobs, rollout.reference), mask, kl_coef)
    if ppo.whiten_rewards:
        rewards = whiten(rewards, mask, group, shift_mean=False)
    advantages, returns = generalized_advantages(rewards, rollout.values, mask, ppo.gamma, ppo.lam)
    return whiten(advantages, mask, group), returns


def _minibatch(
    models: Models, rollout: Rollout, targets: tuple[Any, Any], index: Any, optimizer: Any, config: RLHFConfig,
    group: Group,
) -> dict[str, float]:
    """Make one optimizer step on the rows `index` of each process's rollout, in micro-batches of equal weight a token.

    Returns:
        This process's part of the losses."""
    all_tokens = group.sum(rollout.answers.mask[index].sum())
    totals = {"train/loss": 0.0, "train/value_loss": 0.0, "train/clipped": 0.0}
    optimizer.zero_grad()
    for rows in index.split(config.micro_batch_size):
        answers = rollout.answers.rows(rows)
        advantages, returns = (target[rows] for target in targets)
        logprobs = models.policy_logprobs(answers, config.temperature)
        policy, clipped = policy_loss(logprobs, rollout.logprobs[rows], advantages, answers.mask, config.clip)
        value = value_loss(models.values(answers), rollout.values[rows], returns, answers.mask, config.ppo.value_clip)
        share = answers.mask.sum() / all_tokens
        ((policy + config.ppo.value_coef * value) * share).backward()
        for name, part in zip(totals, (policy, value, clipped), strict=True):
            totals[name] += float(part.detach() * share)
    for model in (models.policy, models.value):
        group.sum_gradients(model.parameters())
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
    optimizer.step()
    return totals
