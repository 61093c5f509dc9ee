"""Weights in other layouts: back bit by bit, and held to forwards that are written here as those trainers compute."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from argosy.core.errors import InputError
from argosy.model.weights.formats import layouts
from argosy.model.weights.formats.files import convert
from argosy.model.weights.load import load_model
from tests.command_line import Argosy
from tests.started_models import make_model, make_qwen_tokenizer

IDS = torch.tensor([3, 17, 5, 40, 0, 22, 9, 9, 31])
KINDS = [("llama", False), ("mistral", True), ("qwen2", True), ("qwen3", False)]


def make(kind: str, tied: bool) -> Any:
    """A model whose norms and biases are not what they start as; heads as wide as no division gives."""
    torch.manual_seed(1)
    head = {} if kind == "qwen2" else {"head_dim": 12}
    config = AutoConfig.for_model(kind, vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
                                  num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=tied,
                                  initializer_range=0.3, **head)  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype="float32").eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model


def weights_of(model: Any) -> tuple[dict[str, Tensor], layouts.Shape]:
    tied = set(model.all_tied_weights_keys)
    weights = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
    return weights, layouts.read_shape(model.config)


def norm(x: Tensor, weight: Tensor, config: Any) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps) * weight


def angles(config: Any, head: int) -> Tensor:
    """(tokens, head / 2)."""
    base: float = config.rope_parameters["rope_theta"]
    return torch.outer(torch.arange(len(IDS)).float(), base ** (-torch.arange(0, head, 2).float() / head))


def rotate_halves(x: Tensor, config: Any) -> Tensor:
    """Rotate x of (tokens, heads, head), the first half of a head with the second."""
    angle = angles(config, x.shape[-1])[:, None]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)


def rotate_neighbours(x: Tensor, config: Any) -> Tensor:
    """Rotate neighbours as complex numbers."""
    turn = torch.polar(torch.tensor(1.0), angles(config, x.shape[-1]))[:, None]
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of (tokens, heads, head), fewer heads of keys and values; (tokens, heads * head)."""
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for each in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.ones(len(IDS), len(IDS)).triu(1).bool(), float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)


def megatron_logits(ranks: Sequence[dict[str, Tensor]], config: Any, head: int) -> Tensor:
    """Each rank has its groups of queries and its part of the MLP; what they add is summed."""
    group = config.num_attention_heads // config.num_key_value_heads
    x = torch.cat([rank["embedding.word_embeddings.weight"] for rank in ranks])[IDS]
    for layer in range(config.num_hidden_layers):
        parts = [{name.removeprefix(f"decoder.layers.{layer}."): weight for name, weight in rank.items()}
                 for rank in ranks]
        more = torch.zeros_like(x)
        for w in parts:
            qkv = norm(x, w["self_attention.linear_qkv.layer_norm_weight"], config) @ w[
                "self_attention.linear_qkv.weight"].T + w.get("self_attention.linear_qkv.bias", torch.zeros(()))
            q, k, v = qkv.view(len(IDS), -1, group + 2, head).split([group, 1, 1], dim=2)
            q, k, v = q.flatten(1, 2), k.flatten(1, 2), v.flatten(1, 2)
            if "self_attention.q_layernorm.weight" in w:
                q = norm(q, w["self_attention.q_layernorm.weight"], config)
                k = norm(k, w["self_attention.k_layernorm.weight"], config)
            more += attend(rotate_halves(q, config), rotate_halves(k, config), v) @ w[
                "self_attention.linear_proj.weight"].T
        x = x + more
        more = torch.zeros_like(x)
        for w in parts:
            gate, up = (norm(x, w["mlp.linear_fc1.layer_norm_weight"], config) @ w["mlp.linear_fc1.weight"].T).chunk(
                2, dim=-1)
            more += (torch.nn.functional.silu(gate) * up) @ w["mlp.linear_fc2.weight"].T
        x = x + more
    head_name = "output_layer.weight" if "output_layer.weight" in ranks[0] else "embedding.word_embeddings.weight"
    return norm(x, ranks[0]["decoder.final_layernorm.weight"], config) @ torch.cat([r[head_name] for r in ranks]).T


def titan_logits(w: dict[str, Tensor], config: Any, head: int) -> Tensor:
    rotate = rotate_halves if config.model_type == "qwen3" else rotate_neighbours
    x = w["tok_embeddings.weight"][IDS]
    for layer in range(config.num_hidden_layers):
        at = f"layers.{layer}"
        y = norm(x, w[f"{at}.attention_norm.weight"], config)
        q, k, v = ((y @ w[f"{at}.attention.qkv_linear.w{name}.weight"].T).view(len(IDS), -1, head) for name in "qkv")
        if config.model_type == "qwen3":
            q, k = (norm(each, w[f"{at}.attention.{name}_norm.weight"], config) for name, each in (("q", q), ("k", k)))
        x = x + attend(rotate(q, config), rotate(k, config), v) @ w[f"{at}.attention.wo.weight"].T
        y = norm(x, w[f"{at}.ffn_norm.weight"], config)
        inner = torch.nn.functional.silu(y @ w[f"{at}.feed_forward.w1.weight"].T) * (
            y @ w[f"{at}.feed_forward.w3.weight"].T)
        x = x + inner @ w[f"{at}.feed_forward.w2.weight"].T
    return norm(x, w["norm.weight"], config) @ w["lm_head.weight"].T


def check_same(back: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    assert back.keys() == weights.keys()
    assert [name for name in weights if not torch.equal(back[name], weights[name])] == []


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("kind", "tied"), KINDS)
def test_megatron_computes_the_same_and_goes_back(kind: str, tied: bool, ranks: int) -> None:
    model = make(kind, tied)
    weights, shape = weights_of(model)
    shards = layouts.to_megatron(weights, shape, ranks)
    with torch.no_grad():
        expected = model(IDS[None]).logits[0]
        found = megatron_logits(shards, model.config, shape.head_dim)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    more = [{**shard, "decoder.layers.0.mlp._extra_state": torch.zeros(1)} for shard in shards]
    check_same(layouts.from_megatron(more, shape), weights)


@pytest.mark.parametrize(("kind", "tied"), [("llama", True), ("mistral", False), ("qwen3", True)])
def test_torchtitan_computes_the_same_and_goes_back(kind: str, tied: bool) -> None:
    model = make(kind, tied)
    weights, shape = weights_of(model)
    state = layouts.to_torchtitan(weights, shape)
    with torch.no_grad():
        expected = model(IDS[None]).logits[0]
        torch.testing.assert_close(titan_logits(state, model.config, shape.head_dim), expected, atol=1e-4, rtol=1e-4)
    check_same(layouts.from_torchtitan(state, shape), weights)
    older = {name.replace("qkv_linear.", "").replace("lm_head.", "output."): each for name, each in state.items()}
    check_same(layouts.from_torchtitan(older, shape), weights)


def test_what_cannot_be_converted_is_named() -> None:
    weights, shape = weights_of(make("qwen2", False))
    with pytest.raises(InputError, match=r"torchtitan has no model of the type 'qwen2'.*--to megatron"):
        layouts.to_torchtitan(weights, shape)
    with pytest.raises(InputError, match="--tensor is 4, allowed: a divisor of num_key_value_heads=2"):
        layouts.to_megatron(weights, shape, 4)
    with pytest.raises(InputError, match=r"the model has also model\.extra,"):
        layouts.to_megatron({**weights, "model.extra": torch.zeros(1)}, shape)
    shards = layouts.to_megatron(weights, shape, 2)
    shards[1]["decoder.final_layernorm.weight"] = torch.zeros(32)
    with pytest.raises(InputError, match=r"final_layernorm\.weight differs between the shards"):
        layouts.from_megatron(shards, shape)
    del shards[1]["output_layer.weight"]
    with pytest.raises(InputError, match=r"shard of rank 1 lacks output_layer\.weight"):
        layouts.from_megatron(shards, shape)
    with pytest.raises(InputError, match="type 'gpt_neox', allowed: llama, mistral, qwen2, qwen3"):
        layouts.read_shape(AutoConfig.for_model("gpt_neox"))
    tied, shape = weights_of(make("qwen3", True))
    state = {**layouts.to_torchtitan(tied, shape), "lm_head.weight": torch.zeros(48, 32)}
    with pytest.raises(InputError, match=r"lm_head\.weight differs.*tie_word_embeddings to false"):
        layouts.from_torchtitan(state, shape)


def test_files_go_from_one_layout_to_the_next_and_back(tmp_path: Path, argosy: Argosy) -> None:
    model = make_model(tmp_path / "hf", "llama", make_qwen_tokenizer(), tied=True)
    argosy("convert", str(model), "--to", "megatron", "--tensor", "2", "--out", str(tmp_path / "megatron"))
    assert {path.name for path in (tmp_path / "megatron").iterdir()} == {
        "hf", "tensor-00-of-02.safetensors", "tensor-01-of-02.safetensors"}
    argosy("convert", str(tmp_path / "megatron"), "--to", "torchtitan", "--out", str(tmp_path / "titan"))
    argosy("convert", str(tmp_path / "titan"), "--to", "hf", "--out", str(tmp_path / "back"))
    expected, back = load_model(model), load_model(tmp_path / "back")
    check_same(back.state_dict(), expected.state_dict())
    assert (tmp_path / "back" / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()

    wrong = {
        ("--to", "torchtitan", "--tensor", "2", "--out", "x"): "--tensor is 2, and --to torchtitan has no shards",
        ("--to", "hf", "--out", "x"): "in the layout hf already",
        ("--to", "megatron", "--out", str(tmp_path / "back")): "is there already"}
    for arguments, message in wrong.items():
        assert message in argosy("convert", str(model), *arguments, code=2).err
    (tmp_path / "megatron" / "tensor-00-of-02.safetensors").write_bytes(b"cut")
    assert "cannot be read" in argosy("convert", str(tmp_path / "megatron"), "--to", "hf", "--out", "x", code=2).err
    (tmp_path / "megatron" / "tensor-00-of-02.safetensors").unlink()
    assert "all shards" in argosy("convert", str(tmp_path / "megatron"), "--to", "hf", "--out", "x", code=2).err


def test_a_window_that_torchtitan_lacks_is_refused(tmp_path: Path) -> None:
    model = make_model(tmp_path / "hf", "mistral", make_qwen_tokenizer(), sliding_window=64)
    assert json.loads((model / "config.json").read_text())["sliding_window"] == 64
    with pytest.raises(InputError, match="window of 64 tokens, and torchtitan"):
        convert(model, "torchtitan", tmp_path / "titan")
