"""Weights of torchtitan's llama3 and qwen3 models.

Its llama3 rotates neighbours (2i, 2i + 1) of a head as one complex number, transformers rotates (i, i + half of the
head): the rows of queries and keys change places. Its qwen3 rotates as transformers does."""

from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.weights.formats.shape import EMBEDDING, HEAD, K, Q, Shape, V, Weights, check_weights, renamed

_LAYER = "model.layers.{}."
_ATTENTION = "layers.{}.attention."
NAMES = {
    EMBEDDING: "tok_embeddings.weight",
    HEAD: "lm_head.weight",
    "model.norm.weight": "norm.weight",
    **{f"{name}.weight": f"{_ATTENTION}qkv_linear.w{letter}.weight" for name, letter in zip((Q, K, V), "qkv",
                                                                                          strict=True)},
    f"{_LAYER}self_attn.o_proj.weight": f"{_ATTENTION}wo.weight",
    f"{_LAYER}self_attn.q_norm.weight": f"{_ATTENTION}q_norm.weight",
    f"{_LAYER}self_attn.k_norm.weight": f"{_ATTENTION}k_norm.weight",
    f"{_LAYER}mlp.gate_proj.weight": "layers.{}.feed_forward.w1.weight",
    f"{_LAYER}mlp.down_proj.weight": "layers.{}.feed_forward.w2.weight",
    f"{_LAYER}mlp.up_proj.weight": "layers.{}.feed_forward.w3.weight",
    f"{_LAYER}input_layernorm.weight": "layers.{}.attention_norm.weight",
    f"{_LAYER}post_attention_layernorm.weight": "layers.{}.ffn_norm.weight",
}
_NAMES_BACK = {new: old for old, new in NAMES.items()}


def to_torchtitan(weights: Weights, shape: Shape) -> dict[str, Tensor]:
    """Return torchtitan's state dict; a tied output layer is in it, as the same tensor.

    `weights`: by transformers' names, matrices (outputs, inputs). Raises InputError: they are not those of `shape`, or
    torchtitan has no such model."""
    _check_type(shape)
    check_weights(weights, shape.empty(), "the model")
    found = renamed(_rotated(weights, shape, back=False), NAMES, shape.layers)
    if shape.tied:
        found["lm_head.weight"] = found["tok_embeddings.weight"]
    return found


def from_torchtitan(weights: Weights, shape: Shape) -> dict[str, Tensor]:
    """Return the weights by transformers' names, of torchtitan's state dict.

    Names of before 2026 (`attention.wq`, `output`) are known too. Raises InputError: they are not those of `shape`, or
    the output layer is not the embedding, to which the config ties it."""
    _check_type(shape)
    given = {_name_now(name): tensor for name, tensor in weights.items()}
    head = given.get("lm_head.weight")
    if shape.tied and head is not None:
        if not given["lm_head.weight"].equal(given.get("tok_embeddings.weight", head)):
            raise InputError("tie_word_embeddings is true, and lm_head.weight differs from tok_embeddings.weight: set "
                             "tie_word_embeddings to false in config.json, so that both are kept")
        del given["lm_head.weight"]
    check_weights(given, renamed(shape.empty(), NAMES, shape.layers), "the checkpoint")
    return _rotated(renamed(given, _NAMES_BACK, shape.layers), shape, back=True)


def _name_now(name: str) -> str:
    for letter in "qkv":
        name = name.replace(f".attention.w{letter}.", f".attention.qkv_linear.w{letter}.")
    return "lm_head.weight" if name == "output.weight" else name


def _check_type(shape: Shape) -> None:
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
