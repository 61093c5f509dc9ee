"""Exports held to the model: ONNX in onnxruntime, GGUF as transformers reads it back, the card of the hub."""

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from argosy.core.errors import InputError, StepError
from argosy.model.weights.exports import EXPORTS, Source
from argosy.model.weights.exports import onnx as module
from argosy.model.weights.exports.onnx import ask, open_session, sample, write_graph
from argosy.model.weights.load import load_model
from steps import export as step
from tests.posttraining_fixtures import make_checkpoint
from tests.training_fixtures import run_here
from tests.unit.model.weights.test_formats import make

KINDS = [("llama", False), ("qwen2", True), ("qwen3", False)]


def expected(model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.as_tensor(model(input_ids=tokens, attention_mask=mask, use_cache=False,
                                     position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits)


def differences(model: Any, file: Path) -> dict[tuple[int, int, int], float]:
    """Write the graph of a model; the largest difference of a logit by batch, length and tokens in the cache before."""
    model.set_attn_implementation("eager")
    write_graph(model, file)
    session, worst = open_session(file), {}
    for batch, length, before in product((1, 3), (1, 17, 128), (0, 1, 30)):
        tokens, mask, _, _ = sample(model, batch, length + before, 0)
        if batch > 1 and before + length > 4:
            mask[1, :4] = 0  # a shorter text, padded on the left
        places = (mask.cumsum(1) - 1).clamp(min=0)
        cache, found = sample(model, batch, 1, 0)[3], []
        for part in (slice(0, before), slice(before, before + length))[not before :]:
            logits, *cache = ask(session, tokens[:, part], mask[:, : part.stop], places[:, part], cache)
            found.append(logits)
        assert all(each.shape[2] == length + before for each in cache)
        apart = (torch.cat(found, dim=1) - expected(model, tokens, mask))[mask.bool()].abs()
        worst[batch, length, before] = float(apart.max())
    return worst


@pytest.mark.parametrize(("kind", "tied"), KINDS)
def test_onnx_computes_the_models_logits_with_a_cache_and_without(tmp_path: Path, kind: str, tied: bool) -> None:
    found = differences(make(kind, tied), tmp_path / "model.onnx")
    assert all(each < 1e-3 for each in found.values()), found


def test_the_step_writes_a_folder_that_is_held_to_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_checkpoint(tmp_path / "source")
    outputs = run_here(step, tmp_path / "out", checkpoint=source, formats=["onnx"])
    folder = tmp_path / "out" / outputs.formats["onnx"]
    assert {"model.onnx", "config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    model = load_model(source / "checkpoints/final").eval()
    tokens, mask, places, empty = sample(model, 2, 9, 0)
    found = ask(open_session(folder / "model.onnx"), tokens, mask, places, empty)[0]
    torch.testing.assert_close(found, expected(model, tokens, mask), rtol=0, atol=1e-3)
    monkeypatch.setattr(module, "difference", lambda model, file: 0.5)
    monkeypatch.setattr(module, "write_graph", lambda model, file: shutil.copy(folder / "model.onnx", file))
    with pytest.raises(StepError, match=r"logits of model\.onnx differ from the model's by 0\.5, allowed: 0\.001"):
        run_here(step, tmp_path / "wrong", checkpoint=source, formats=["onnx"])


def test_what_cannot_be_exported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(make_checkpoint(tmp_path / "source") / "checkpoints/final")
    config = (source.path / "config.json").read_text()
    for changed, message in (('"model_type": "gpt2"', "type 'gpt2', allowed: llama"),
                             ('"model_type": "mistral", "sliding_window": 16', "has a window of 16 tokens")):
        (source.path / "config.json").write_text(config.replace('"model_type": "llama"', changed))
        with pytest.raises(InputError, match=message):
            EXPORTS["onnx"].write(source, tmp_path)
    with pytest.raises(ValueError, match="dtype is 'int8', allowed for onnx: float32"):
        step.ExportConfig(formats=("gguf", "onnx"), dtype="int8")
    with pytest.raises(ValueError, match=r"unknown format 'onx'; did you mean 'onnx'\?"):
        step.ExportConfig(formats=("onx",))
    monkeypatch.setattr(type(EXPORTS["gguf"]), "packages", ())
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"convert_hf_to_gguf\.py, which is not on the PATH: clone .* set LLAMA_CPP"):
        EXPORTS["gguf"].check()
    (tmp_path / "convert_hf_to_gguf.py").touch(0o755)
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path / "empty"))
    EXPORTS["gguf"].check()


CONVERTER = """import sys
from pathlib import Path
source, _, out, _, kind = sys.argv[1:]
assert (Path(source) / "model.safetensors").is_file() and (Path(source) / "tokenizer.json").is_file()
if kind == "f32": sys.exit("Model LlamaForCausalLM is not supported")
if kind == "f16": sys.exit("NotImplementedError: BPE pre-tokenizer was not recognized")
Path(out).write_text(kind)
"""


def test_gguf_is_left_to_the_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of llama.cpp's script, by its command line."""
    monkeypatch.setattr(type(EXPORTS["gguf"]), "packages", ())
    (tmp_path / "convert_hf_to_gguf.py").write_text(CONVERTER)
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    source = make_checkpoint(tmp_path / "source")
    outputs = run_here(step, tmp_path / "out", checkpoint=source, formats=["gguf"], dtype="int8")
    assert [path.name for path in (tmp_path / "out/gguf").iterdir()] == ["model.gguf"]
    assert (tmp_path / "out/gguf/model.gguf").read_text() == "q8_0"
    assert outputs.bytes == {"gguf": 4}
    with pytest.raises(InputError, match=r"cuts text by a pattern that llama\.cpp has not"):
        run_here(step, tmp_path / "own", checkpoint=source, formats=["gguf"], dtype="float16")
    with pytest.raises(StepError, match=r"convert_hf_to_gguf\.py failed: Model LlamaForCausalLM is not supported"):
        run_here(step, tmp_path / "failed", checkpoint=source, formats=["gguf"], dtype="float32")
