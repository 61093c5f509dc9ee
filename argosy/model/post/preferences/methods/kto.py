"""Kahneman-Tversky Optimization (Ethayarajh et al. 2024, equation 8): from answers that are good or bad by themselves.

The point of reference is the policy's divergence, estimated from answers put to other prompts, never below 0."""

from typing import TYPE_CHECKING

from argosy.model.post.preferences.methods import Answers, Method, Settings

if TYPE_CHECKING:
    from torch import Tensor


def _losses(config: Settings, answers: Answers, good: "Tensor", divergence: "Tensor") -> "Tensor":
    import torch

    gain = config.beta * (answers.ratios - divergence)
    weight = torch.where(good, config.desirable_weight, config.undesirable_weight)
    return weight * (1 - torch.where(good, gain, -gain).sigmoid())


METHOD = Method(lambda config, answers: config.beta * answers.ratios, single=_losses,
                fields=("beta", "desirable_weight", "undesirable_weight"))
