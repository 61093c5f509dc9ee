"""vLLM itself, beside a real model: its log-probabilities are ours, of an adapter and of a policy that learns too."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from torch import Tensor

from argosy.core.step.contract import Progress, StepContext
from argosy.core.step.machine import free_port
from argosy.core.store.files import read_record
from argosy.core.tracking.tracker import Tracker
from argosy.model.serve.upstream import UpstreamModel
from argosy.model.weights.adapters import LoRAConfig
from argosy.model.weights.adapters.layers import add_adapters
from argosy.model.weights.export import Exporter
from argosy.model.weights.load import load_model
from steps import rlhf
from tests.processes import until
from tests.real_model.reference import Reference, logits
from tests.real_model.test_training import THINGS
from tests.step_fixtures import write_lines
from tests.training_fixtures import Recorder, run_here

pytestmark = pytest.mark.real_model
NAMED = "ARGOSY_VLLM"
BANDS = {"float32": 1e-3, "bfloat16": 0.35}  # of bfloat16: two kernels' rounding of the same weights
TEXT = "The Nile flows north. 长江流经11个省，注入东海。naïve 東京 🙂 def f(x):\n\treturn  x + 1\n\n" * 4


@pytest.fixture
def program() -> str:
    named = os.environ.get(NAMED, "")
    if not shutil.which(named):
        pytest.skip(f"{NAMED} is {named!r}, which is no program: docs/install.md says how to install vLLM")
    return named


def tuned(base: Path, directory: Path) -> Path:
    """An adapter of the model in `base` as training might leave it: no zeros."""
    torch.manual_seed(0)
    model = add_adapters(load_model(base), LoRAConfig(rank=8, merge=False), 0, base)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.02)
    context = StepContext(directory, Tracker(None), Progress(None))
    Exporter(context, "sft", Reference.of(base).tokenizer, 0).write("final", model, 1, 1)
    return directory / "checkpoints/final"


def apart(found: list[float], model: Any, ids: list[int]) -> Tensor:
    """Differences of the last tokens' log-probabilities."""
    scores = logits(model, ids).double().log_softmax(-1)[:-1]
    wanted = scores[torch.arange(len(scores)), torch.tensor(ids[1:])]
    return (torch.tensor(found) - wanted[-len(found) :]).abs()


@pytest.mark.parametrize("dtype", BANDS)
def test_vllm_computes_our_log_probabilities(started: Path, tmp_path: Path, program: str, dtype: str) -> None:
    base, port = started / "checkpoints/final", free_port()
    adapter, ids = tuned(base, tmp_path / "adapter"), Reference.of(base).ids(TEXT)
    models = {"base": load_model(base, dtype=dtype).eval(), "tuned": load_model(adapter, dtype=dtype).eval()}
    assert float(apart([0.0], models["base"], ids) - apart([0.0], models["tuned"], ids)) != 0
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", timeout=600)
    engine = UpstreamModel("tuned", adapter, "vllm", port, tmp_path / "log", [program],
                           ["--dtype", dtype, "--max-model-len", "512", "--enforce-eager"])
    try:
        for name, model in models.items():
            asked: dict[str, Any] = {"model": name, "prompt": ids, "max_tokens": 16, "temperature": 0, "logprobs": 0}
            more = {"prompt_logprobs": 0, "return_token_ids": True}
            [first] = client.completions.create(**asked, extra_body=more).choices
            made = first.model_extra["token_ids"]  # type: ignore[index]
            given = [each[str(token)]["logprob"] for each, token in
                     zip(first.model_extra["prompt_logprobs"][1:], ids[1:], strict=True)]  # type: ignore[index]
            found = apart([*given, *first.logprobs.token_logprobs], model, ids + made)  # type: ignore[union-attr,misc]
            print(f"{name} in {dtype}, {len(found)} tokens: {found.max():.1e}, mean {found.mean():.1e}")
            assert found.max() < BANDS[dtype]
            streamed = "".join(part.choices[0].text for part in client.completions.create(**asked, stream=True))
            [again] = client.completions.create(**asked).choices
            assert streamed == again.text == first.text
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode().splitlines()
        [hits] = [line for line in metrics if line.startswith("vllm:prefix_cache_hits_total")]
        assert float(hits.rpartition(" ")[2]) > 0  # of the two that ask the same prompt again
    finally:
        asyncio.run(engine.end())


def test_vllm_samples_a_run_of_rl_that_goes_on_after_sigterm(started: Path, tmp_path: Path, program: str) -> None:
    out, data, last = tmp_path / "out", tmp_path / "data", 4
    data.mkdir()
    questions = [{"prompt": [{"role": "user", "content": f"Name {thing}."}], "lang": "en"} for thing in THINGS]
    write_lines(data / "prompts.jsonl", questions)
    fields = {"checkpoint": str(started), "data": str(data), "method": "grpo", "generation": "vllm", "dtype": "float32",
              "server": {"command": program, "arguments": ["--enforce-eager"], "tolerance": BANDS["float32"]},
              "max_steps": last, "batch_size": 8, "micro_batch_size": 4, "group": {"size": 4}, "max_new_tokens": 16,
              "learning_rate": 1e-4, "schedule": "constant", "warmup_ratio": 0.0, "log_every": 1, "heldout_limit": 2,
              "rewards": {"length": {"most": 4, "soft": 12}}}
    command = [sys.executable, "-m", "steps.rlhf", "--config", json.dumps(fields), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as step:
        until(lambda: read_record(out / "progress.json").get("done", 0) > 0 or step.poll() is not None, 3600)
        step.terminate()
        printed = step.communicate()[0]
    assert step.returncode == 143, printed
    log = Recorder()
    run_here(rlhf, out, log, **fields)
    first = int(re.findall(r"^step (\d+)/", printed, re.MULTILINE)[-1]) + 1
    differences = [log.logged["rlhf/sampler_difference", at] for at in range(first, last + 1)]
    print(f"after SIGTERM, nats a token apart: {', '.join(f'{each:.1e}' for each in differences)}")
    assert max(differences) < BANDS["float32"]
    assert all(log.logged["train/grad_norm", at] > 0 for at in range(first, last + 1))
    assert (out / "log-server.txt").read_text().count(f"{program} serve ") == 2
