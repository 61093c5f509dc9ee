"""Activations that the backward computes again in place of keeping them."""

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import create_selective_checkpoint_contexts

_ATTENTION = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")


def recompute(model: Any, how: str) -> None:
    """Have each block of a causal model of transformers keep its input alone (`how` full), or its matrix products and
    attention too (selective); none changes nothing. The numbers stay as they are."""
    if how == "none":
        return
    settings: dict[str, Any] = {"use_reentrant": False}
    if how == "selective":
        settings["context_fn"] = partial(create_selective_checkpoint_contexts, _kept())
    model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)


def _kept() -> list[Any]:
    """List the operations whose results are kept."""
    aten = torch.ops.aten
    attention = [getattr(aten, f"_scaled_dot_product_{name}") for name in _ATTENTION]
    return [each.default for each in (aten.mm, aten.addmm, aten.bmm, *attention)]
