"""Quantized checkpoints: weights held to a rounding that is written here in NumPy, and taken by what evaluates."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.infer.model import LanguageModel
from argosy.model.weights import quantize as module
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import check_files, load_model
from argosy.model.weights.quantize import check, quantization_of, quantize, save, scale_inputs
from steps import quantize as step
from tests.command_line import Argosy
from tests.posttraining_fixtures import make_checkpoint
from tests.training_fixtures import Recorder, run_here
from tests.unit.model.weights.test_formats import make


def rounded(weight: Tensor, method: str, group: int, dtype: str) -> Tensor:
    """Weights after rounding to nearest with a symmetric scale for each output, or each group of inputs."""
    parts = weight.numpy().reshape(len(weight), -1, group or weight.shape[1])
    top = {"int8": 127.5, "int4": 7.5, "fp8": 448.0}[method]
    scales = np.abs(parts).max(-1, keepdims=True) / top
    scales = torch.from_numpy(scales).to(getattr(torch, dtype)).float().numpy()
    if method == "fp8":
        whole = np.clip(parts / scales, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    else:
        whole = np.clip(np.round(parts / scales), -np.floor(top) - 1, np.floor(top))
    return torch.from_numpy((whole * scales).reshape(weight.shape).astype(np.float32))


def linear(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight for name, weight in weights.items() if name.endswith("proj.weight")}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("method", "group"), [("int8", 0), ("int4", 64), ("int4", 32), ("fp8", 0)])
def test_weights_are_rounded_to_nearest_and_others_stay(tmp_path: Path, method: str, group: int, dtype: str) -> None:
    source = make_checkpoint(tmp_path / "source") / "checkpoints/final"
    before = load_model(source).to(getattr(torch, dtype)).float()
    weights = {name: weight.clone() for name, weight in before.state_dict().items()}
    assert check(before, method, group or None) == group
    quantize(before, method, group, dtype)
    (tmp_path / "out").mkdir()
    save(before, tmp_path / "out", dtype)
    found = load_model(tmp_path / "out")  # in float32, from what was saved in `dtype`
    assert quantization_of(tmp_path / "out") == "compressed-tensors"
    assert len(linear(weights)) == 14
    for name, weight in found.state_dict().items():
        wanted = rounded(weights[name], method, group, dtype) if name in linear(weights) else weights[name]
        # transformers multiplies integers and scales in the precision of the scales
        torch.testing.assert_close(weight, wanted.to(getattr(torch, dtype)).float(), rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "tied"), [("llama", False), ("qwen2", True), ("qwen3", False)])
def test_scaled_inputs_compute_the_same_and_lose_less_in_four_bits(kind: str, tied: bool) -> None:
    model = make(kind, tied)
    with torch.no_grad():  # a few wide inputs, as in large models
        for block in model.model.layers:
            block.input_layernorm.weight[3] *= 30
            block.post_attention_layernorm.weight[7] *= 30
    rows = torch.randint(48, (6, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(input_ids=rows).logits

    def lost(scaled: bool) -> float:
        copy = make(kind, tied)
        copy.load_state_dict(model.state_dict())
        if scaled:
            scale_inputs(copy, list(rows), 8)
            with torch.no_grad():
                torch.testing.assert_close(copy(input_ids=rows).logits, wanted, rtol=1e-3, atol=1e-3)
        for name, weight in linear(copy.state_dict()).items():
            copy.get_parameter(name).data = rounded(weight, "int4", 8, "float32")
        with torch.no_grad():
            return float((copy(input_ids=rows).logits - wanted).pow(2).mean())

    assert lost(scaled=True) < 0.9 * lost(scaled=False)


def test_a_step_leaves_a_checkpoint_that_scores_and_generates_like_its_weights(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source")
    tracker = Recorder()
    outputs = run_here(step, tmp_path / "out", tracker, checkpoint=source, method="int4", group_size=32)
    found = find_checkpoint(tmp_path / "out")
    assert (found.stage, found.tokens, found.chat) == ("quantize", 1000, False)
    assert (outputs.group_size, outputs.final) == (32, "checkpoints/final")
    assert tracker.logged["size/after_mb", 0] == outputs.bytes / 1e6
    assert tracker.watched["perf/decoding_after", 0] > 0
    dense = load_model(source / "checkpoints/final")
    numbers = sum(weight.numel() for weight in linear(dense.state_dict()).values())
    assert 26 < 8 * (outputs.bytes_before - outputs.bytes) / numbers < 27  # of 32 bits, 4 are left, and a scale's 1
    for name, weight in linear(dense.state_dict()).items():
        dense.get_parameter(name).data = rounded(weight, "int4", 32, "float32")
    dense.save_pretrained(tmp_path / "dense")
    for each in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / "dense" / each).write_bytes((found.path / each).read_bytes())
    ours, theirs = (LanguageModel.load(find_checkpoint(path)) for path in (tmp_path / "out", tmp_path / "dense"))
    texts = [("say red", " twice"), ("", "say blue twice please")]
    assert ours.loglikelihood(texts) == theirs.loglikelihood(texts)
    assert ours.generate(["say red twice"], max_tokens=8) == theirs.generate(["say red twice"], max_tokens=8)
    check_files(found.path)  # before vLLM reads them


def test_wrong_input_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    source = make_checkpoint(tmp_path / "source")
    model = load_model(source / "checkpoints/final")

    def config(kind: str) -> Any:
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(
            kind, vocab_size=48, hidden_size=40, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4))

    for given, message in ((lambda: check(model, "int4", 128), "group_size is 128, .* 64, 128 inputs; allowed: .* 32"),
                           (lambda: check(model, "int8", 64), "is 64, and int8 has one scale .*leave it out"),
                           (lambda: check(config("llama"), "int4", None), "40, 64 inputs; .* 32 does: set method=int8"),
                           (lambda: check(config("gpt_neox"), "awq", None), "type gpt_neox: set method=int4"),
                           (lambda: check(config("mixtral"), "int8", None), "has experts"),
                           (lambda: run_here(step, tmp_path / "awq", checkpoint=source, method="awq"),
                            "tokenized is empty")):
        with pytest.raises(InputError, match=message):
            given()
    run_here(step, tmp_path / "out", checkpoint=source)
    with pytest.raises(InputError, match=r"is quantized already \(compressed-tensors\)"):
        run_here(step, tmp_path / "again", checkpoint=tmp_path / "out")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"compressed-tensors is not installed; .*'argosy\[quantize"):
        load_model(tmp_path / "out/checkpoints/final")


def test_the_command_names_the_checkpoint_by_what_it_is_of(tmp_path: Path, argosy: Argosy, no_mlflow: None) -> None:
    make_checkpoint(tmp_path / "runs/source-0123456789ab")
    named = ["--store", str(tmp_path / "runs")]
    said = argosy("quantize", str(tmp_path / "runs/source-0123456789ab"), "--to", "fp8", *named)
    [out] = (tmp_path / "runs").glob("quantize-*")
    assert str(out) in said.out
    assert json.loads((out / "checkpoints/final/argosy.json").read_text())["stage"] == "anneal-fp8"
    refused = argosy("quantize", "x", "--to", "int8", "--tokens", "y", *named, code=2)
    assert "--tokens is y, and int8 needs no calibration text" in refused.err
