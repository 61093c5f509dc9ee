"""PPO's arithmetic and the KL estimators against computations written out another way."""

import math

import pytest
import torch

from argosy.models import logprobs as kl
from argosy.posttraining.rl.objective import (
    KLController,
    generalized_advantages,
    policy_loss,
    token_rewards,
    value_loss,
    whiten,
)


@pytest.fixture
def mask() -> torch.Tensor:
    return torch.tensor([[0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 0]], dtype=torch.float)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.99, 0.0)])
def test_advantages_are_the_sum_of_the_discounted_errors(mask: torch.Tensor, gamma: float, lam: float) -> None:
    rewards, values = random(3, 6) * mask, random(3, 6, seed=1)
    advantages, returns = generalized_advantages(rewards, values, mask, gamma, lam)
    for row in range(3):
        at = mask[row].nonzero().flatten().tolist()
        r, v = rewards[row, at].tolist(), values[row, at].tolist()
        v.append(0.0)  # the end of the answer is terminal
        for t in range(len(at)):
            errors = [r[k] + gamma * v[k + 1] - v[k] for k in range(t, len(at))]
            expected = sum((gamma * lam) ** k * error for k, error in enumerate(errors))
            assert advantages[row, at[t]].item() == pytest.approx(expected, abs=1e-5)
            assert returns[row, at[t]].item() == pytest.approx(expected + v[t], abs=1e-5)
    assert torch.all(advantages[mask == 0] == 0)
    assert torch.all(returns[mask == 0] == 0)


def test_score_falls_on_the_last_token_and_kl_on_each(mask: torch.Tensor) -> None:
    divergence, scores = random(3, 6), torch.tensor([1.0, -2.0, 3.0])
    rewards = token_rewards(scores, divergence, mask, kl_coef=0.1)
    expected = -0.1 * divergence * mask
    for row, last in enumerate([4, 5, 4]):
        expected[row, last] += scores[row]
    torch.testing.assert_close(rewards, expected)


def test_whitening_makes_variance_one_over_the_answers_alone(mask: torch.Tensor) -> None:
    values = random(3, 6) * 5 + 2
    chosen = whiten(values, mask)[mask == 1]
    assert chosen.mean().item() == pytest.approx(0, abs=1e-6)
    assert chosen.var(unbiased=False).item() == pytest.approx(1, abs=1e-5)
    kept = whiten(values, mask, shift_mean=False)[mask == 1]
    assert kept.mean().item() == pytest.approx(values[mask == 1].mean().item(), abs=1e-5)


def test_policy_loss_clips_only_what_would_gain(mask: torch.Tensor) -> None:
    old, new, advantages = random(3, 6), random(3, 6, seed=1), random(3, 6, seed=2)
    loss, clipped = policy_loss(new, old, advantages, mask, clip=0.2)
    total, count, held = 0.0, 0, 0
    for row, column in mask.nonzero().tolist():
        ratio = math.exp(new[row, column].item() - old[row, column].item())
        advantage = advantages[row, column].item()
        limited = min(max(ratio, 0.8), 1.2)
        total -= min(ratio * advantage, limited * advantage)
        held += limited * advantage < ratio * advantage
        count += 1
    assert loss.item() == pytest.approx(total / count, abs=1e-5)
    assert clipped.item() == pytest.approx(held / count)
    assert 0 < held < count


def test_value_loss_takes_the_worse_of_free_and_held(mask: torch.Tensor) -> None:
    old, new, returns = random(3, 6), random(3, 6, seed=1), random(3, 6, seed=2)
    expected = []
    for row, column in mask.nonzero().tolist():
        o, n, r = (float(t[row, column]) for t in (old, new, returns))
        held = o + min(max(n - o, -0.2), 0.2)
        expected.append(0.5 * max((n - r) ** 2, (held - r) ** 2))
    assert value_loss(new, old, returns, mask, 0.2).item() == pytest.approx(sum(expected) / len(expected), abs=1e-5)


def test_kl_coefficient_is_steered_to_its_target() -> None:
    controller = KLController(coef=0.1, target=0.05, horizon=100)
    controller.update(kl=0.5, answers=10)  # the error is limited to 20 %
    assert controller.coef == pytest.approx(0.1 * 1.02)
    controller.update(kl=0.045, answers=10)
    assert controller.coef == pytest.approx(0.1 * 1.02 * 0.99)
    fixed = KLController(coef=0.1, target=0.0, horizon=100)
    fixed.update(kl=5.0, answers=10)
    assert fixed.coef == 0.1


def test_kl_estimators_agree_with_the_divergence_of_two_distributions() -> None:
    p_logits, q_logits = random(1, 1, 8), random(1, 1, 8, seed=1)
    p, q = p_logits[0, 0].softmax(-1), q_logits[0, 0].softmax(-1)
    truth = torch.distributions.kl_divergence(torch.distributions.Categorical(probs=p),
                                              torch.distributions.Categorical(probs=q)).item()
    assert kl.exact(p_logits, q_logits).item() == pytest.approx(truth, abs=1e-6)
    # The mean of an estimator under p is a sum over the vocabulary, so no sampling is needed to check it.
    ours, theirs = p.log(), q.log()
    assert (p * kl.k1(ours, theirs)).sum().item() == pytest.approx(truth, abs=1e-6)
    assert (p * kl.k3(ours, theirs)).sum().item() == pytest.approx(truth, abs=1e-6)
    assert (kl.k3(ours, theirs) >= 0).all()
    assert (kl.k1(ours, theirs) < 0).any()
