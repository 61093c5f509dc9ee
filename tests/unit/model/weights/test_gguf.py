"""GGUF files: loaded as the directory that they were made from, their quantization said; refused where none can."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.step_files import read_outputs
from argosy.model.weights import pretrained
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import load_model
from steps import start
from tests.command_line import Argosy
from tests.started_models import make_model, make_qwen_tokenizer
from tests.training_fixtures import run_here
from workflows.stored.last_run import model_directory

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk"}
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # types of tokens


def write_gguf(file: Path, model: Any, tokenizer: Any) -> dict[str, Any]:
    """Write a Qwen2 model as llama.cpp does, matrices in 8 bits; returns the numbers that are in the file by name."""
    import gguf
    import torch

    writer, held = gguf.GGUFWriter(file, "qwen2"), {}
    _write_shapes(writer, model.config)
    _write_tokenizer(writer, tokenizer)
    for name, tensor in model.state_dict().items():
        there = name
        for ours, theirs in NAMES.items():
            there = there.replace(ours, theirs)
        kind = gguf.GGMLQuantizationType.Q8_0 if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(tensor.float().numpy(), kind)
        writer.add_tensor(there, packed, raw_dtype=kind)
        held[name] = torch.from_numpy(gguf.quants.dequantize(packed, kind).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def _write_shapes(writer: Any, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def _write_tokenizer(writer: Any, tokenizer: Any) -> None:
    added = {str(each): CONTROL if each.special else USER_DEFINED for each in tokenizer.added_tokens_decoder.values()}
    ids = tokenizer.get_vocab()
    ordered = sorted(ids, key=ids.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(ordered)
    writer.add_token_types([added.get(token, NORMAL) for token in ordered])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)


def test_a_gguf_file_is_the_model_that_is_in_it(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the package gguf is not installed: pip install gguf")
    import torch

    tokenizer = make_qwen_tokenizer()
    made = make_model(tmp_path / "made", "qwen2", tokenizer, rows=len(tokenizer))
    held = write_gguf(tmp_path / "small.gguf", load_model(made), tokenizer)
    foreign = make_qwen_tokenizer(more=("Gr", "<foreign>"))
    foreign.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))  # a file of another model in the same folder
    run_here(start, tmp_path / "start", model=str(tmp_path / "small.gguf"))
    unpacked = find_checkpoint(model_directory(tmp_path / "runs", str(tmp_path / "small.gguf")))
    outputs = read_outputs(tmp_path / "start")
    assert outputs["gguf"]["quantization"] == "Q8_0 F32"
    assert unpacked.label() == {**find_checkpoint(made).label(), "name": "small", "gguf": outputs["gguf"]}
    for path in (unpacked.path, tmp_path / "start/checkpoints/final"):
        weights = load_model(path).state_dict()
        assert all(torch.equal(weights[name], there) for name, there in held.items())
        own = pretrained.load_tokenizer(path)
        assert own.chat_template == tokenizer.chat_template
        assert own.get_vocab() == tokenizer.get_vocab()
        for text in ("a <think> b<|im_end|>", "Grüße, 世界"):
            assert own(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_without_the_package_it_is_said_how_to_install_it(tmp_path: Path, argosy: Argosy,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    for command in (["generate", str(tmp_path / "a.gguf"), "x"], ["evaluate", str(tmp_path / "a.gguf")]):
        assert "pip install 'argosy[gguf]'" in argosy(*command, "--store", str(tmp_path / "runs"), code=2).err
    with pytest.raises(InputError, match=r"is a GGUF file, which the package gguf reads: install it"):
        run_here(start, tmp_path / "start", model=str(tmp_path / "a.gguf"))
