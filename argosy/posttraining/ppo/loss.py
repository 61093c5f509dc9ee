"""The clipped losses of policy and value, and the controller of the KL coefficient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from argosy.posttraining.ppo.advantage import masked_mean


def policy_loss(logprobs: Any, old_logprobs: Any, advantages: Any, mask: Any, clip: float) -> tuple[Any, Any]:
    """(loss, part of the tokens where the clipping decides) (Schulman et al. 2017, eq. 7)."""
    import torch

    ratio = ((logprobs - old_logprobs) * mask).exp()
    free = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip, 1 + clip)
    return masked_mean(torch.max(free, clipped), mask), masked_mean((clipped > free).float(), mask)


def value_loss(values: Any, old_values: Any, returns: Any, mask: Any, clip: float) -> Any:
    """Half the squared error; the worse of the value and of the value held near its old one."""
    import torch

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
