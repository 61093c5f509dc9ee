"""Methods of reinforcement learning, one class a file: which advantages an answer's tokens have.

Tensors are (answers, T), a rollout's answers in rows; `mask` is 1 on an answer's tokens, which are one after the other,
anywhere in the row."""

from dataclasses import dataclass
from typing import Any, ClassVar

from argosy.core.config.schema import Config
from argosy.core.lazy import torch
from argosy.core.plugins import Folder


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

    def by_group(self, copies: int, kl_coef: float) -> Any:
        """Return the answers' scores less their divergence, (prompts, copies)."""
        return (self.scores - kl_coef * (self.kl * self.mask).sum(1)).view(-1, copies)


class Method(Config):
    """A method of reinforcement learning. The fields of a new one have the role ADDED, so that no digest of the others
    changes; they are fields of the step's config.

    Attributes:
        ratio, normalizer, scale, kl: what `auto` is in `loss`.
        grouped: whether its baseline is a group of answers to one prompt.
        valued: whether it has a value model."""

    name: ClassVar[str] = ""
    ratio: ClassVar[str] = "token"
    normalizer: ClassVar[str] = "token"
    scale: ClassVar[str] = "batch"
    kl: ClassVar[str] = "reward"
    grouped: ClassVar[bool] = False
    valued: ClassVar[bool] = False

    def advantages(self, outcome: Outcome, config: Any) -> tuple[Any, Any]:
        """Return the advantages, (answers, T), before `loss.scale`; and the returns for a value model, or None."""
        raise NotImplementedError(f"the method {self.name} has no advantages")


METHODS: Folder[type[Method]] = Folder("method", Method, __name__)


def masked_mean(values: Any, mask: Any) -> Any:
    """Return the mean of the values where `mask` is 1."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def whiten(values: Any, mask: Any) -> Any:
    """Shift to mean 0 and scale to variance 1 over the masked positions; 0 elsewhere."""
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask)
    return (values - mean) * (variance + 1e-8).rsqrt() * mask


def token_rewards(scores: Any, kl: Any, mask: Any, kl_coef: float) -> Any:
    """Return -kl_coef * KL at each token, plus the answer's score at its last token (Ouyang et al. 2022, eq. 2)."""
    rewards = -kl_coef * kl * mask
    last = (mask * torch.arange(1, mask.size(1) + 1, device=mask.device)).argmax(1)
    rewards[torch.arange(len(scores), device=rewards.device), last] += scores
    return rewards
