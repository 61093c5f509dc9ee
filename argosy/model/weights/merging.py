"""Weights of several models of one shape as one, a tensor at a time: their mean, SLERP or TIES.

A mean of the last checkpoints stands in for annealing (Sanyal et al. 2023, "Early Weight Averaging meets High Learning
Rates"; Wortsman et al. 2022, "Model soups"). SLERP goes along the arc between two tensors (Shoemake 1985). TIES keeps
of each model's changes of a common base the largest, elects a sign for each weight, and takes the mean of the changes
that have it (Yadav et al. 2023, "TIES-Merging")."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_NEARLY_PARALLEL = 0.9995  # cosine beyond which the arc is its chord, to float32


def mean(parts: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Return the mean of tensors of one shape; `shares` sum to 1."""
    return torch.stack([part * share for part, share in zip(parts, shares, strict=True)]).sum(0)


def slerp(parts: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Return the point on the arc from the first tensor to the second, the share of the second away from the first."""
    first, second = parts
    cosine = float(torch.dot(first.flatten(), second.flatten()) / (first.norm() * second.norm()).clamp(min=1e-20))
    if abs(cosine) > _NEARLY_PARALLEL:
        return mean(parts, shares)
    angle = math.acos(cosine)
    return mean(parts, [math.sin(share * angle) / math.sin(angle) for share in shares])


def ties(parts: Sequence[Tensor], shares: Sequence[float], base: Tensor, density: float) -> Tensor:
    """Return the base with the elected changes of it. `density`: share of a tensor's changes that are kept."""
    changes = torch.stack([_largest(part - base, density) * share for part, share in zip(parts, shares, strict=True)])
    elected = torch.where(changes.sum(0) >= 0, 1.0, -1.0)
    agree = changes * elected > 0
    weights = (agree * torch.tensor(shares).reshape(-1, *[1] * base.dim())).sum(0)
    return base + (changes * agree).sum(0) / torch.where(weights > 0, weights, 1.0)


def _largest(change: Tensor, density: float) -> Tensor:
    sizes = change.abs().flatten()
    least = sizes.kthvalue(sizes.numel() - math.ceil(density * sizes.numel()) + 1).values
    return torch.where(change.abs() >= least, change, 0.0)
