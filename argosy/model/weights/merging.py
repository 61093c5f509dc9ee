"""Weights of several models of one shape as one, a tensor at a time: their mean, SLERP or TIES.

A mean of the last checkpoints stands in for annealing (Sanyal et al. 2023, "Early Weight Averaging meets High Learning
Rates"; Wortsman et al. 2022, "Model soups"). SLERP goes along the arc between two tensors (Shoemake 1985). TIES keeps
of each model's changes of a common base the largest, elects a sign for each weight, and takes the mean of the changes
that have it (Yadav et al. 2023, "TIES-Merging")."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.weights.checkpoint import Checkpoint
from argosy.model.weights.export import whole_weights
from argosy.model.weights.numbers import Numbers
from argosy.model.weights.pretrained import load_config, load_tokenizer
from argosy.model.weights.quantize import quantization_of
from argosy.model.weights.unfilled import numbers_of, unfilled

_NEARLY_PARALLEL = 0.9995  # cosine beyond which the arc is its chord, to float32
_APART = ("transformers_version", "_name_or_path", "dtype", "use_cache")  # fields of config.json that merges ignore


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


def open_alike(sources: Sequence[Checkpoint]) -> list[Any]:
    """Open models that can be merged, without memory where their files allow it.

    Raises InputError: two differ in their shapes or their tokenizers, or one is quantized."""
    for source in sources:
        if by := quantization_of(source.path):
            raise InputError(f"checkpoint {source.path} is quantized ({by}): name the one that it was made from")
    first, *others = sources
    shapes, vocabulary = _shapes(first.path), load_tokenizer(first.path).get_vocab()
    for source in others:
        own = _shapes(source.path)
        if wrong := next((name for name in sorted(own | shapes) if own.get(name) != shapes.get(name)), ""):
            raise InputError(f"checkpoint {source.path} has {wrong}={own.get(wrong)!r} and {first.path} has "
                             f"{shapes.get(wrong)!r}: merge models of one shape, such as those of one line")
        if load_tokenizer(source.path).get_vocab() != vocabulary:
            raise InputError(f"checkpoints {first.path} and {source.path} have tokenizers with different tokens: merge "
                             "models of one tokenizer")
    return [unfilled(source.path) for source in sources]


def merged(models: Sequence[Any], merge: Callable[[Sequence[Tensor]], Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a merge of models by name, in float32, each made when its turn comes."""
    weights = [numbers_of(model) or whole_weights(model) for model in models]
    for name in sorted(weights[0]):
        parts = [each[name].float() for each in weights]
        for each, part in zip(weights, parts, strict=True):
            if isinstance(each, Numbers):  # others were checked as they were loaded
                each.check(name, part)
        yield name, merge(parts)


def _shapes(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = load_config(path).to_dict()
    return {name: value for name, value in found.items() if name not in _APART}
