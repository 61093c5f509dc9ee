"""Weights of Megatron-Core's GPTModel with its Transformer Engine layers, whole or in tensor-parallel shards.

Queries, keys and values are one matrix, by group of queries: those of a group, their key, their value (Megatron-Core,
`SelfAttention.linear_qkv`). The gate and what it multiplies are one matrix too, gate first (`linear_fc1`). Norms belong
to the matrix that reads them. Shards: Shoeybi et al. 2019, "Megatron-LM"."""

from collections.abc import Sequence

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.weights.formats.shape import EMBEDDING, HEAD, K, Q, Shape, V, Weights, check_weights, renamed

_LAYER, _BLOCK = "model.layers.{}.", "decoder.layers.{}."
NAMES = {
    EMBEDDING: "embedding.word_embeddings.weight",
    HEAD: "output_layer.weight",
    "model.norm.weight": "decoder.final_layernorm.weight",
    f"{_LAYER}input_layernorm.weight": f"{_BLOCK}self_attention.linear_qkv.layer_norm_weight",
    f"{_LAYER}self_attn.o_proj.weight": f"{_BLOCK}self_attention.linear_proj.weight",
    f"{_LAYER}self_attn.q_norm.weight": f"{_BLOCK}self_attention.q_layernorm.weight",
    f"{_LAYER}self_attn.k_norm.weight": f"{_BLOCK}self_attention.k_layernorm.weight",
    f"{_LAYER}post_attention_layernorm.weight": f"{_BLOCK}mlp.linear_fc1.layer_norm_weight",
    f"{_LAYER}mlp.down_proj.weight": f"{_BLOCK}mlp.linear_fc2.weight",
}
_QKV, _FC1 = f"{_BLOCK}self_attention.linear_qkv", f"{_BLOCK}mlp.linear_fc1.weight"
_GATE, _UP = f"{_LAYER}mlp.gate_proj.weight", f"{_LAYER}mlp.up_proj.weight"
_ROWS = ("word_embeddings.weight", "output_layer.weight", "linear_qkv.weight", "linear_qkv.bias")
_COLUMNS = ("linear_proj.weight", "linear_fc2.weight")


def to_megatron(weights: Weights, shape: Shape, tensor: int = 1) -> list[dict[str, Tensor]]:
    """Return the state dict of each of `tensor` tensor-parallel ranks.

    Args:
        weights: by transformers' names, matrices (outputs, inputs).

    Raises InputError: they are not those of `shape`, or `tensor` does not divide them."""
    check_weights(weights, shape.empty(), "the model")
    _check_divides(shape, tensor)
    return _shards(_fused(weights, shape), tensor)


def _fused(weights: Weights, shape: Shape) -> dict[str, Tensor]:
    found = renamed(weights, NAMES, shape.layers)
    for layer in range(shape.layers):
        for kind in ("weight", "bias") if shape.kind == "qwen2" else ("weight",):
            groups = [weights[f"{name.format(layer)}.{kind}"].unflatten(0, (shape.kv_heads, -1)) for name in (Q, K, V)]
            found[f"{_QKV.format(layer)}.{kind}"] = torch.cat(groups, dim=1).flatten(0, 1)
        found[_FC1.format(layer)] = torch.cat([weights[_GATE.format(layer)], weights[_UP.format(layer)]])
    return found


def _shards(whole: Weights, ranks: int) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{} for _ in range(ranks)]
    for name, weight in whole.items():
        if name.endswith("linear_fc1.weight"):  # each rank has a part of the gate, and the same of what it multiplies
            gate, up = weight.chunk(2)
            parts = [torch.cat(pair) for pair in zip(gate.chunk(ranks), up.chunk(ranks), strict=True)]
        elif name.endswith(_ROWS + _COLUMNS):
            parts = list(weight.chunk(ranks, dim=1 if name.endswith(_COLUMNS) else 0))
        else:
            parts = [weight] * ranks
        for shard, part in zip(shards, parts, strict=True):
            shard[name] = part.contiguous()
    return shards


def from_megatron(shards: Sequence[Weights], shape: Shape) -> dict[str, Tensor]:
    """Return the weights by transformers' names, of the state dicts of all tensor-parallel ranks in their order.

    Transformer Engine's `_extra_state` entries are left out. Raises InputError: they are not those of `shape`, or
    what every rank has differs between ranks."""
    _check_divides(shape, len(shards))
    kept = [{name: tensor for name, tensor in shard.items() if not name.endswith("_extra_state")} for shard in shards]
    for rank, (shard, expected) in enumerate(zip(kept, _shards(_fused(shape.empty(), shape), len(kept)), strict=True)):
        check_weights(shard, expected, f"the shard of rank {rank}")
    whole = _joined(kept)
    found = renamed(whole, {new: old for old, new in NAMES.items()}, shape.layers)
    group = shape.heads // shape.kv_heads
    for layer in range(shape.layers):
        for kind in ("weight", "bias") if shape.kind == "qwen2" else ("weight",):
            fused = whole[f"{_QKV.format(layer)}.{kind}"].unflatten(0, (shape.kv_heads, -1))
            parts = fused.split([group * shape.head_dim, shape.head_dim, shape.head_dim], dim=1)
            for name, part in zip((Q, K, V), parts, strict=True):
                found[f"{name.format(layer)}.{kind}"] = part.flatten(0, 1).contiguous()
        gate, up = whole[_FC1.format(layer)].chunk(2)
        found |= {_GATE.format(layer): gate.contiguous(), _UP.format(layer): up.contiguous()}
    return found


def _joined(shards: Sequence[Weights]) -> dict[str, Tensor]:
    whole = {}
    for name, first in shards[0].items():
        parts = [shard[name] for shard in shards]
        if name.endswith("linear_fc1.weight"):
            halves = [part.chunk(2) for part in parts]
            whole[name] = torch.cat([gate for gate, _ in halves] + [up for _, up in halves])
        elif name.endswith(_ROWS + _COLUMNS):
            whole[name] = torch.cat(parts, dim=1 if name.endswith(_COLUMNS) else 0)
        else:
            if any(not torch.equal(first, part) for part in parts):
                raise InputError(f"{name} differs between the shards, and every rank has the same: give the shards of "
                                 "one checkpoint")
            whole[name] = first
    return whole


def _check_divides(shape: Shape, tensor: int) -> None:
    """Check that the ranks divide what is cut. Raises InputError: they do not."""
    cut = {"num_key_value_heads": shape.kv_heads, "intermediate_size": shape.inner, "vocab_size": shape.vocab}
    for name, size in cut.items():
        if tensor < 1 or size % tensor:
            raise InputError(f"--tensor is {tensor}, allowed: a divisor of {name}={size}, so that every rank has as "
                             "much")
