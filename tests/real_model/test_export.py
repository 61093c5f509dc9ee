"""A real model's exports compute its logits: ONNX in onnxruntime, GGUF in llama.cpp."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen3Config

from argosy.core.errors import InputError
from argosy.model.weights.exports import EXPORTS, Source
from argosy.model.weights.load import load_model
from tests.real_model.reference import Reference
from tests.unit.model.weights.test_export import differences

pytestmark = pytest.mark.real_model
TEXTS = ("The Nile flows north", "长江流经11个省，注入东海。naïve 東京 🙂", "def f(x):\n\treturn  x + 1\n\n")
EXACT = ("-ctk", "f32", "-ctv", "f32", "-fa", "off")  # keys and values are float16 otherwise
BANDS = {"float32": 1e-3, "bfloat16": 0.35}  # of a log-probability above -12; of bfloat16, SmolLM2-135M's is 0.2


def test_onnx_computes_the_logits_of_a_real_model(started: Path, tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    found = differences(load_model(started / "checkpoints/final").eval(), tmp_path / "model.onnx")
    print("".join(f"batch, length, before {at}: {each:.1e}\n" for at, each in found.items()))
    assert all(each < 1e-3 for each in found.values()), found


@contextmanager
def llama_cpp(model: Path) -> Iterator[Any]:
    """llama.cpp's server with a model: what asks it, by path and request."""
    command = shlex.split(os.environ.get("LLAMA_SERVER", "llama-server"))
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not there: install llama.cpp, or name its server's command in LLAMA_SERVER")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen([*command, *EXACT, "-m", str(model), "--port", address.rpartition(":")[2]]) as server:
        def ask(path: str, request: dict[str, Any] | None = None) -> Any:
            with urlopen(f"http://{address}{path}", request and json.dumps(request).encode(), timeout=120) as answer:
                return json.load(answer)

        try:
            while True:
                try:
                    assert server.poll() is None
                    ask("/health")
                    break
                except OSError:  # it is loading
                    time.sleep(0.5)
            yield ask
        finally:
            server.terminate()


def apart(ask: Any, wanted: Tensor, ids: Sequence[int]) -> float:
    """The largest difference of the log-probability of a token after `ids` that is at least -12."""
    asked = {"prompt": list(ids), "n_predict": 1, "n_probs": len(wanted), "cache_prompt": False, "temperature": 0,
             "logit_bias": [["a", 100]]}  # a token that ends within a character has no entry; no entry has the bias
    [found] = ask("/completion", asked)["completion_probabilities"]
    there = {each["id"]: each["logprob"] for each in found["top_logprobs"]}
    expected = wanted.double().log_softmax(-1)
    return max(abs(there[at] - float(expected[at])) for at in (expected > -12).nonzero().flatten().tolist())


@pytest.mark.parametrize("dtype", BANDS)
@pytest.mark.parametrize("kind", ["real", "qwen3"])
def test_gguf_in_llama_cpp_computes_the_log_probabilities(started: Path, tmp_path: Path, kind: str, dtype: str) -> None:
    """Of the real model, and of a Qwen3 of random weights with its tokenizer, which cuts all texts as transformers."""
    source = started / "checkpoints/final"
    if kind == "qwen3":
        torch.manual_seed(0)
        reference = Reference.of(source)
        AutoModelForCausalLM.from_config(Qwen3Config(
            vocab_size=len(reference.tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=3,
            head_dim=32, num_attention_heads=4, num_key_value_heads=2)).save_pretrained(tmp_path / "qwen3")
        source = Path(reference.tokenizer.save_pretrained(tmp_path / "qwen3")[0]).parent
    try:
        EXPORTS["gguf"].check()
    except InputError as problem:
        pytest.skip(str(problem))
    theirs = Reference.of(source)
    EXPORTS["gguf"].write(Source(source, dtype=dtype), tmp_path)
    with llama_cpp(tmp_path / "model.gguf") as ask:
        for text in (*TEXTS, theirs.turn(TEXTS[1])):
            ids = theirs.ids(text)
            assert ask("/tokenize", {"content": text, "parse_special": True})["tokens"] == ids
            worst = max(apart(ask, theirs.logits(ids[:count])[-1], ids[:count]) for count in (2, len(ids)))
            print(f"{kind} in {dtype}, {len(ids)} tokens: {worst:.1e}")
            assert worst < BANDS[dtype]
