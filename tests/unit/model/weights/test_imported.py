"""Models from elsewhere: the tokens that they lack, by numbers, GGUF files, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from argosy.core.errors import InputError
from argosy.core.store.step_files import read_outputs
from argosy.model.weights import pretrained
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.elsewhere.imported import ImportedModel, check_files, import_model
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import load_tokenizer
from steps import start
from tests.started_models import make_model, make_qwen_tokenizer
from tests.tokenizer_kinds import TEXTS, make_sentencepiece
from tests.training_fixtures import run_here
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs
from workflows.stored.last_run import model_directory

TURNS = ("<|user|>", "<|assistant|>", "<|end|>")


def bare() -> Any:
    """SentencePiece's, with neither padding nor a chat template, as Llama's base models have it: 480 tokens."""
    return make_sentencepiece(TEXTS * 3, 480)


def check_rows(found: ImportedModel, before: Any, new: list[int], known: list[int]) -> None:
    """Rows `new` are the mean of the rows `known` as they were; all other weights are as they were."""
    now = found.model.state_dict()
    tables = {name for name in now if name.endswith(("embed_tokens.weight", "embed_in.weight", "lm_head.weight"))}
    for name, old in before.state_dict().items():
        if name not in tables:
            assert torch.equal(now[name], old), name
            continue
        mean = old[known].double().mean(0).float()
        assert torch.equal(now[name][new], mean.expand(len(new), -1)), name
        kept = [row for row in range(len(old)) if row not in new]
        assert torch.equal(now[name][kept], old[kept]), name


@pytest.mark.parametrize(("kind", "tied"), [("llama", False), ("llama", True), ("gpt_neox", False)])
def test_a_table_that_is_full_grows_by_its_multiple(tmp_path: Path, kind: str, tied: bool) -> None:
    path = make_model(tmp_path, kind, bare(), rows=480, tied=tied)
    found = import_model(path)
    assert found.added == {"<|pad|>": 480, "<|user|>": 481, "<|assistant|>": 482, "<|end|>": 483}
    assert found.rows == (480, 512)  # 480 is a multiple of 32
    assert found.model.config.vocab_size == 512
    assert (found.model.get_input_embeddings().weight is found.model.get_output_embeddings().weight) is tied
    check_rows(found, load_model(path), [*range(480, 512)], [*range(480)])
    assert "a table of 512 rows, before 480: a multiple of 32" in found.notes[-1]
    assert found.tokenizer.pad_token == "<|pad|>"
    assert (found.tokenizer.bos_token, found.tokenizer.eos_token) == ("<s>", "</s>")
    rendered = found.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert rendered == "<s><|user|>a<|end|>"


def test_spare_rows_are_used_first(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen3", make_qwen_tokenizer(template=""), rows=448)
    known = len(make_qwen_tokenizer())
    found = import_model(path)
    assert list(found.added) == list(TURNS)  # padding is there
    assert list(found.added.values()) == [known, known + 1, known + 2]
    assert found.rows == (448, 448)
    check_rows(found, load_model(path), [*found.added.values()], [*range(known)])
    assert "in spare rows of its table of 448" in found.notes[-1]


def test_a_model_with_all_it_needs_is_left_as_it_is(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen2", make_qwen_tokenizer(), rows=448, tied=True)
    found = import_model(path)
    assert (found.added, found.rows, found.notes) == ({}, (448, 448), [])
    check_rows(found, load_model(path), [], [0])


def test_a_date_in_the_template_is_not_the_days(tmp_path: Path) -> None:
    template = ("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}2024{% endif %}"
                "{{ messages[0].content }}")
    found = import_model(make_model(tmp_path, "qwen2", make_qwen_tokenizer(template=template)))
    rendered = found.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert rendered == "2024a"
    assert "day's date" in found.notes[0]


def test_other_types_and_quantized_weights_are_refused(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen2", make_qwen_tokenizer())
    config = json.loads((path / "config.json").read_text())
    for change, words in (({"model_type": "phi"}, "is of the type 'phi', allowed: gpt_neox, llama, mistral, mixtral"),
                          ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "are quantized")):
        (path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(InputError, match=words):
            import_model(path)


def test_files_that_cannot_be_a_model_are_refused_by_the_plan_as_by_the_step(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen2", make_qwen_tokenizer())
    check_files(path)
    (path / "chat_template.jinja").write_text("{{ messages[0].content + 1 }}{{ raise_exception('never') }}")
    check_files(path)  # it compiles, and nothing of it is run
    for name, text, words in (("chat_template.jinja", "{% if %}", "chat_template.jinja is no template that can be"),
                              ("tokenizer_config.json", "{", "tokenizer_config.json is not valid JSON"),
                              ("tokenizer.json", "[]", "tokenizer.json is not a JSON object"),
                              ("config.json", "{", "config.json is not valid JSON")):
        before = (path / name).read_bytes()
        (path / name).write_text(text)
        for check in (import_model, _plan):
            with pytest.raises(InputError, match=words):
                check(path)
        (path / name).write_bytes(before)
    (path / "tokenizer.json").unlink()
    (tmp_path / "model.gguf").write_bytes(b"GGML and more")
    for wrong, words in ((path, r"has no tokenizer\.json: copy it"),
                         (tmp_path / "model.gguf", "is no GGUF file, as it does not begin as one")):
        for check in (import_model, _plan, load_tokenizer):
            with pytest.raises(InputError, match=words):
                check(wrong)


def _plan(path: Path) -> None:
    check_inputs(lifecycle(compose("tiny", None, [f"start.model={path}", "stages=start"])), {"start"})


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
