"""Weights of torchtitan's llama3 and qwen3 models, and of Megatron-Core's GPTModel.

torchtitan's llama3 rotates neighbours (2i, 2i + 1) of a head as one complex number, transformers rotates (i, i + half
of the head): the rows of queries and keys change places. Its qwen3 rotates as transformers does.

Megatron-Core's are those with Transformer Engine layers, whole or in tensor-parallel shards. Queries, keys and values
are one matrix, by group of queries: those of a group, their key, their value (`SelfAttention.linear_qkv`). The gate and
what it multiplies are one matrix too, gate first (`linear_fc1`). Norms belong to the matrix that reads them. Shards:
Shoeybi et al. 2019, "Megatron-LM"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.weights.drawn import bare

TYPES = ("llama", "mistral", "qwen2", "qwen3")
Weights = Mapping[str, Tensor]
Q, K, V = (f"model.layers.{{}}.self_attn.{name}_proj" for name in "qkv")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Shape:
    """Describes the weights of a config."""

    kind: str
    layers: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    config: Any
    """the config of transformers"""

    def empty(self) -> dict[str, Tensor]:
        """Return the weights by transformers' names, without their numbers (on the device `meta`).

        Matrices are (outputs, inputs); a tied output layer is not among them, nor what the conversions do not know."""
        biases = [f"{name}.bias" for name in (Q, K, V)] if self.kind == "qwen2" else []
        known = {name.format(layer) for name in (*_TITAN, *biases) for layer in range(self.layers)}
        made = bare(self.config)
        return {name: tensor for name, tensor in made.state_dict().items()
                if name in known and name not in made.all_tied_weights_keys}


def read_shape(config: Any, whole: str = "") -> Shape:
    """Read the fields of a config of transformers. `whole`: what lets attention see all tokens, for an error. Raises
    InputError: it is of another type, or its attention has a window, which `whole` has not."""
    kind = str(config.model_type)
    if kind not in TYPES:
        raise InputError(f"the model is of the type {kind!r}, allowed: {', '.join(TYPES)}; the weights of others are "
                         "not known to the conversions")
    used = getattr(config, "use_sliding_window", True) and getattr(config, "layer_types", 0) != ["full_attention"] * (
        config.num_hidden_layers)
    window = getattr(config, "sliding_window", None) if used else None
    if whole and window and window < config.max_position_embeddings:
        raise InputError(f"the model's attention has a window of {window} tokens, and {whole} has none: set "
                         "sliding_window to null in config.json if no text is longer")
    heads = config.num_attention_heads
    return Shape(kind, config.num_hidden_layers, config.intermediate_size, heads, config.num_key_value_heads,
                 getattr(config, "head_dim", None) or config.hidden_size // heads, config.vocab_size,
                 bool(config.tie_word_embeddings), config)


def check_weights(weights: Weights, expected: Weights, where: str) -> None:
    """Check that `weights` are those that are `expected`, by name and shape. Raises InputError: one is missing, left
    over or of another shape; names `where` they are from."""
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


_NAMES: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_TITAN, _MEGATRON = _NAMES["torchtitan"], _NAMES["megatron"]
_TITAN_BACK = {new: old for old, new in _TITAN.items()}


def to_torchtitan(weights: Weights, shape: Shape) -> dict[str, Tensor]:
    """Return torchtitan's state dict; a tied output layer is in it, as the same tensor.

    `weights`: by transformers' names, matrices (outputs, inputs). Raises InputError: they are not those of `shape`, or
    torchtitan has no such model."""
    _check_titan(shape)
    check_weights(weights, shape.empty(), "the model")
    found = renamed(_rotated(weights, shape, back=False), _TITAN, shape.layers)
    if shape.tied:
        found["lm_head.weight"] = found["tok_embeddings.weight"]
    return found


def from_torchtitan(weights: Weights, shape: Shape) -> dict[str, Tensor]:
    """Return the weights by transformers' names, of torchtitan's state dict.

    Names of before 2026 (`attention.wq`, `output`) are known too. Raises InputError: they are not those of `shape`, or
    the output layer is not the embedding, to which the config ties it."""
    _check_titan(shape)
    given = {_name_now(name): tensor for name, tensor in weights.items()}
    head = given.get("lm_head.weight")
    if shape.tied and head is not None:
        if not given["lm_head.weight"].equal(given.get("tok_embeddings.weight", head)):
            raise InputError("tie_word_embeddings is true, and lm_head.weight differs from tok_embeddings.weight: set "
                             "tie_word_embeddings to false in config.json, so that both are kept")
        del given["lm_head.weight"]
    check_weights(given, renamed(shape.empty(), _TITAN, shape.layers), "the checkpoint")
    return _rotated(renamed(given, _TITAN_BACK, shape.layers), shape, back=True)


def _name_now(name: str) -> str:
    for letter in "qkv":
        name = name.replace(f".attention.w{letter}.", f".attention.qkv_linear.w{letter}.")
    return "lm_head.weight" if name == "output.weight" else name


def _check_titan(shape: Shape) -> None:
    if shape.kind == "qwen2":
        raise InputError("torchtitan has no model of the type 'qwen2', whose queries, keys and values have biases; "
                         "allowed: llama, mistral (as its llama3), qwen3; Megatron-Core has one (--to megatron)")


def _rotated(weights: Weights, shape: Shape, *, back: bool) -> dict[str, Tensor]:
    """Return the weights with the rows of queries and keys in the order of the other rotation, or `back`."""
    found = dict(weights)
    if shape.kind == "qwen3":
        return found
    half = shape.head_dim // 2
    for layer in range(shape.layers):
        for name, heads in ((Q, shape.heads), (K, shape.kv_heads)):
            key = f"{name.format(layer)}.weight"
            rows = found[key].unflatten(0, (heads, half, 2) if back else (heads, 2, half))
            found[key] = rows.transpose(1, 2).flatten(0, 2).contiguous()
    return found


_QKV, _FC1 = "decoder.layers.{}.self_attention.linear_qkv", "decoder.layers.{}.mlp.linear_fc1.weight"
_GATE, _UP = (f"model.layers.{{}}.mlp.{name}_proj.weight" for name in ("gate", "up"))
_CUT_ROWS = ("word_embeddings.weight", "output_layer.weight", "linear_qkv.weight", "linear_qkv.bias")
_CUT_COLUMNS = ("linear_proj.weight", "linear_fc2.weight")


def to_megatron(weights: Weights, shape: Shape, tensor: int = 1) -> list[dict[str, Tensor]]:
    """Return the state dict of each of `tensor` tensor-parallel ranks.

    Args:
        weights: by transformers' names, matrices (outputs, inputs).

    Raises InputError: they are not those of `shape`, or `tensor` does not divide them."""
    check_weights(weights, shape.empty(), "the model")
    _check_divides(shape, tensor)
    return _shards(_fused(weights, shape), tensor)


def _fused(weights: Weights, shape: Shape) -> dict[str, Tensor]:
    found = renamed(weights, _MEGATRON, shape.layers)
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
        elif name.endswith(_CUT_ROWS + _CUT_COLUMNS):
            parts = list(weight.chunk(ranks, dim=1 if name.endswith(_CUT_COLUMNS) else 0))
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
    found = renamed(whole, {new: old for old, new in _MEGATRON.items()}, shape.layers)
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
        elif name.endswith(_CUT_ROWS + _CUT_COLUMNS):
            whole[name] = torch.cat(parts, dim=1 if name.endswith(_CUT_COLUMNS) else 0)
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
