"""Kahneman-Tversky Optimization (Ethayarajh et al. 2024, equation 8): from answers that are good or bad by themselves.

The point of reference is the policy's divergence, estimated from answers put to other prompts, never below 0."""

from pydantic import Field

from argosy.core.lazy import torch
from argosy.model.post.preferences.methods import Answers, SingleMethod, Tensor


class KTO(SingleMethod):
    desirable_weight: float = Field(default=1.0, gt=0)
    """Weight of good answers (kto)."""
    undesirable_weight: float = Field(default=1.0, gt=0)
    """Weight of bad answers (kto)."""

    def single_losses(self, answers: Answers, good: Tensor, divergence: Tensor) -> Tensor:
        gain = self.beta * (answers.ratios - divergence)
        weight = torch.where(good, self.desirable_weight, self.undesirable_weight)
        return weight * (1 - torch.where(good, gain, -gain).sigmoid())
