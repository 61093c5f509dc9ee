"""Config of adapters: which kind, where, how large, and what a step exports of them."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from argosy.core.config.schema import ADDED, Config

PositiveInt = Annotated[int, Field(gt=0)]


class LoRAConfig(Config):
    """Adapters that a step trains in place of the weights, which stay as they are."""

    kind: Literal["lora", "dora", "rslora", "qlora"] = "lora"
    """lora: products of two thin matrices (Hu et al. 2021); rslora: scaled by the root of the rank (Kalajdzievski
    2023); dora: directions by lora, lengths trained apart (Liu et al. 2024); qlora: lora over weights of 4 bits
    (Dettmers et al. 2023), on CUDA GPUs, with the package bitsandbytes."""
    rank: PositiveInt = 16
    """Columns of the one matrix and rows of the other."""
    alpha: float = Field(default=32.0, gt=0)
    """The product counts alpha / rank times; with rslora, alpha / sqrt(rank) times."""
    rate_ratio: Annotated[float, Field(gt=0), ADDED] = 1.0
    """Learning rate of the second matrix, B, over that of the first, A (LoRA+, Hayou et al. 2024, take 16 for models of
    billions of parameters)."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of an adapter's inputs that is set to 0 in training."""
    targets: Annotated[tuple[str, ...], BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value)] = ("all",)
    """Linear layers of the blocks that get adapters: `all`, or names such as `q_proj`, with `*` for any text; each has
    to match one."""
    modules_to_save: tuple[str, ...] = ()
    """Modules around the blocks that are trained whole beside the adapters, such as `embed_tokens`."""
    merge: bool = True
    """The export is the whole model with the adapters added to its weights, and the adapter beside it; false: it is
    the adapter alone, which is loaded with the checkpoint that it was trained from."""

    def check_fields(self) -> None:
        if not self.targets:
            raise ValueError("targets is empty, so that there would be no adapter; allowed: all, or names such as "
                             "[q_proj, v_proj]")
