"""Parameters and FLOPs of a config, held against transformers' own models and torch's counter."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from argosy.core.errors import InputError
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.gpus import find_gpu, forward_flops
from argosy.model.train.sizing.inference import cache_bytes, serving, weight_bytes

SMALL = {"vocab_size": 517, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
         "num_attention_heads": 4}
CASES: list[dict[str, Any]] = [
    {"model_type": "llama"}, {"model_type": "llama", **SMALL, "num_key_value_heads": 2, "tie_word_embeddings": True},
    {"model_type": "llama", **SMALL, "attention_bias": True, "mlp_bias": True, "head_dim": 32},
    {"model_type": "qwen2"}, {"model_type": "qwen2", **SMALL, "num_key_value_heads": 1, "tie_word_embeddings": True},
    {"model_type": "qwen3"}, {"model_type": "qwen3", **SMALL, "num_key_value_heads": 2, "attention_bias": True},
    {"model_type": "mistral"}, {"model_type": "mistral", **SMALL, "num_key_value_heads": 2, "head_dim": 16},
    {"model_type": "gpt_neox"}, {"model_type": "gpt_neox", **SMALL, "tie_word_embeddings": True},
    {"model_type": "gpt_neox", **SMALL, "attention_bias": False},
    {"model_type": "mixtral"}, {"model_type": "mixtral", **SMALL, "num_key_value_heads": 2, "num_local_experts": 5},
    {"model_type": "qwen3_moe", "head_dim": 128},
    {"model_type": "qwen3_moe", **SMALL, "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2,
     "moe_intermediate_size": 40, "decoder_sparse_step": 2, "tie_word_embeddings": True},
    {"model_type": "qwen3_moe", **SMALL, "num_key_value_heads": 4, "num_experts": 4, "mlp_only_layers": [0],
     "num_experts_per_tok": 2},
]  # fmt: skip


def model_of(config: dict[str, Any], device: str = "meta") -> Any:
    fields = {name: value for name, value in config.items() if name != "model_type"}
    with torch.device(device):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **fields), dtype="float32")


@pytest.mark.parametrize("config", CASES, ids=lambda config: f"{config['model_type']}-{len(config)}")
def test_parameters_are_those_of_transformers(config: dict[str, Any]) -> None:
    model = model_of(config)
    found = read_architecture(config)
    assert found.parameters() == sum(parameter.numel() for parameter in model.parameters())
    experts = {name: each.numel() for name, each in model.named_parameters() if ".experts." in name}
    assert found.parameters("experts") == sum(experts.values())
    chosen = found.experts_per_token / max(1, found.experts)
    assert found.active_parameters == found.parameters() - round(sum(experts.values()) * (1 - chosen))
    assert read_architecture(model.config.to_dict()) == found  # all fields written out, as some config.json have them


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt_neox"])
def test_flops_are_those_that_torch_counts(kind: str) -> None:
    """Three times the forward is what the backward of products takes too."""
    config = {"model_type": kind, **SMALL, **({} if kind == "gpt_neox" else {"num_key_value_heads": 2, "head_dim": 24})}
    model = model_of(config, "cpu")
    model.set_attn_implementation("eager")
    ids = torch.zeros((2, 40), dtype=torch.long)
    found = forward_flops(read_architecture(config), ids.numel(), ids.shape[1])
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        model(input_ids=ids, use_cache=False)
    assert found == forward.get_total_flops()
    with FlopCounterMode(display=False) as step:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    # The first block's input needs no gradient only where it is the data: here it is the embedding's output.
    assert 3 * found == step.get_total_flops()


def test_a_config_that_is_wrong_says_how() -> None:
    wrong = {
        "allowed: gpt_neox, llama, .*; nearest: llama": {"model_type": "lama"},
        "hidden_size is 0, allowed: a whole number from 1 on": {"model_type": "llama", "hidden_size": 0},
        "num_key_value_heads is 3, allowed: a divisor of 32": {"model_type": "llama", "num_key_value_heads": 3},
        "head_dim is '64', allowed: a whole number": {"model_type": "llama", "head_dim": "64"},
        "num_experts is None, allowed: a whole number": {"model_type": "qwen3_moe", "num_experts": None}}
    for message, config in wrong.items():
        with pytest.raises(InputError, match=message):
            read_architecture(config)


@pytest.mark.parametrize("config", CASES, ids=lambda config: f"{config['model_type']}-{len(config)}")
def test_weights_and_cache_of_answering_are_those_of_transformers(config: dict[str, Any]) -> None:
    model, shape = model_of(config).to(torch.bfloat16), read_architecture(config, "config.json")
    assert weight_bytes(shape, 2, 1) == sum(each.nbytes for each in model.parameters())
    cache = model(torch.zeros((1, 3), dtype=torch.long, device="meta"), use_cache=True).past_key_values
    assert cache_bytes(shape, 3) == sum(each.keys.nbytes + each.values.nbytes for each in cache.layers)
    assert cache_bytes(shape, 3, shape.kv_heads) * shape.kv_heads == cache_bytes(shape, 3)


def test_a_gpu_answers_as_many_sequences_as_it_has_room_for() -> None:
    """Llama 3's 8 B on an H100, by hand: 90 % of 80 GiB, less the weights, are 60.9 GB for 1.07 GB a sequence."""
    config = {"model_type": "llama", "vocab_size": 128256, "intermediate_size": 14336, "num_key_value_heads": 8}
    whole, *_ = serving(read_architecture(config, "config.json"), find_gpu("h100"), 8192, 8)
    assert (whole.gpus, whole.sequence) == (1, 8192 * 131_072)
    assert 54 <= whole.sequences <= 56  # 56.7 without room for CUDA and a prefill
    each = 16.06e9 + whole.sequences * 1.074e9  # bytes that a step reads
    assert whole.tokens_a_second == pytest.approx(whole.sequences * 3.35e12 / each, rel=1e-3)
