"""The shapes of a dense model's weights as transformers names them, which every layout is converted from and to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import InputError

TYPES = ("llama", "mistral", "qwen2", "qwen3")
Weights = Mapping[str, Tensor]
Q, K, V = (f"model.layers.{{}}.self_attn.{name}_proj" for name in "qkv")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Shape:
    """Describes the weights of a config."""

    kind: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool

    def empty(self) -> dict[str, Tensor]:
        """Return the weights by transformers' names, without their numbers (on the device `meta`).

        Matrices are (outputs, inputs); a tied output layer is not among them."""
        sizes: dict[str, tuple[int, ...]] = {EMBEDDING: (self.vocab, self.hidden), "model.norm.weight": (self.hidden,)}
        if not self.tied:
            sizes[HEAD] = (self.vocab, self.hidden)
        for layer in range(self.layers):
            sizes |= {f"model.layers.{layer}.{name}": size for name, size in self._block().items()}
        return {name: torch.empty(size, device="meta") for name, size in sizes.items()}

    def _block(self) -> dict[str, tuple[int, ...]]:
        hidden, inner, query, kv = self.hidden, self.inner, self.heads * self.head_dim, self.kv_heads * self.head_dim
        sizes: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (query, hidden), "self_attn.k_proj.weight": (kv, hidden),
            "self_attn.v_proj.weight": (kv, hidden), "self_attn.o_proj.weight": (hidden, query),
            "mlp.gate_proj.weight": (inner, hidden), "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
        }
        if self.kind == "qwen2":
            sizes |= {f"self_attn.{name}_proj.bias": (size,) for name, size in zip("qkv", (query, kv, kv), strict=True)}
        if self.kind == "qwen3":
            sizes |= {f"self_attn.{name}_norm.weight": (self.head_dim,) for name in "qk"}
        return sizes


def read_shape(config: Mapping[str, Any]) -> Shape:
    """Read the fields of a config of transformers, as a mapping with all defaults (`PreTrainedConfig.to_dict`).

    Raises InputError: it is of another type."""
    kind = str(config.get("model_type", ""))
    if kind not in TYPES:
        raise InputError(f"the model is of the type {kind!r}, allowed: {', '.join(TYPES)}; the weights of others are "
                         "not known to the conversions")
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    return Shape(kind, int(config["num_hidden_layers"]), hidden, int(config["intermediate_size"]), heads,
                 int(config.get("num_key_value_heads") or heads), int(config.get("head_dim") or hidden // heads),
                 int(config["vocab_size"]), bool(config.get("tie_word_embeddings")))


def check_weights(weights: Weights, expected: Weights, where: str) -> None:
    """Check that `weights` are those that are `expected`, by name and shape.

    Raises InputError: one is missing, left over or of another shape; names `where` they are from."""
    kinds = {"lacks": expected.keys() - weights.keys(), "has also": weights.keys() - expected.keys()}
    for verb, names in kinds.items():
        if names:
            first, *more = sorted(names)
            others = f" and {len(more)} more tensors" if more else ""
            raise InputError(f"{where} {verb} {first}{others}, against what its config.json says: convert a whole "
                             f"model with its own config.json, of the type {', '.join(TYPES)}, without other biases")
    for name, tensor in sorted(expected.items()):
        if weights[name].shape != tensor.shape:
            raise InputError(f"{where}: {name} has the shape {list(weights[name].shape)}, and its config says "
                             f"{list(tensor.shape)}: take the config.json of the same model")


def renamed(weights: Weights, names: Mapping[str, str], layers: int) -> dict[str, Tensor]:
    """Return the weights that `names` has, under their other names; `{}` in them is a block's number."""
    every = {old.format(layer): new.format(layer) for old, new in names.items()
             for layer in (range(layers) if "{}" in old else [0])}
    return {new: weights[old] for old, new in every.items() if old in weights}
