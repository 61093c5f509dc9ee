"""vLLM as a server of RLHF: its protocol, its weights and their version, its faults, its processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steps.rlhf
from argosy.core.errors import InputError, StepError
from argosy.model.infer import keeper
from argosy.model.infer.decode import Decoding, TransformersDecoder
from argosy.model.post.rl import RLHFConfig, ServerConfig
from argosy.model.post.rl.server import Client, _environment, check_installed, start_server
from tests.fake_vllm import FakeVLLM, serving
from tests.posttraining_fixtures import GRPO, make_checkpoint
from tests.processes import ROOT, alive, until
from tests.training_fixtures import Recorder, run_here


def train(root: Path, out: Path, log: Recorder | None = None, **fields: Any) -> Recorder:
    log = log or Recorder()
    run_here(steps.rlhf, out, log, **{
        "checkpoint": root / "base", "data": root / "data", **GRPO, "max_steps": 3, "save_every": 1,
        "learning_rate": 3e-3, **fields})
    return log


@pytest.mark.parametrize("more", [{}, {"staleness": 1, "lora": {"rank": 2}}], ids=["weights", "stale adapters"])
def test_a_run_with_the_server_equals_one_without(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  more: dict[str, Any]) -> None:
    """The stand-in samples as transformers does here, from the halved seeds that the server gets."""
    fake = FakeVLLM()
    with serving(fake) as url:
        there = train(root, tmp_path / "there", generation="vllm", server={"url": url}, **more)
    own = TransformersDecoder.__call__
    monkeypatch.setattr(TransformersDecoder, "__call__", lambda decoder, prompts, seeds, decoding: own(
        decoder, prompts, [[seed >> 1 for seed in of] for of in seeds] if decoding.scored else seeds, decoding))
    here = train(root, tmp_path / "here", **more)
    for key, value in here.logged.items():
        assert there.logged[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key
    assert min(there.logged["train/grad_norm", step] for step in (1, 2, 3)) > 0  # so that weights change
    bound = 1e-5 if not more.get("staleness") else 0.1
    assert all(there.logged["rlhf/sampler_difference", step] < bound for step in (1, 2, 3))
    versions = 3 - more.get("staleness", 0)
    one = ["/pause?mode=wait", "/collective_rpc", "/update_weight_version", "/resume"]
    assert fake.asked == one * versions
    assert not any(Path(each).exists() for each in fake.loaded)  # nothing is left
    assert (tmp_path / "there/checkpoints/final").exists()


def test_a_killed_run_goes_on_with_the_weights_of_its_state(root: Path, tmp_path: Path) -> None:
    cut, fake = Recorder(crash_at=3), FakeVLLM()
    with serving(fake) as url:
        with pytest.raises(KeyboardInterrupt):
            train(root, tmp_path, cut, generation="vllm", server={"url": url})
        cut.crash_at = None
        before = len(fake.loaded)
        train(root, tmp_path, cut, generation="vllm", server={"url": url})  # what it logs again is the same
    assert len(fake.loaded) == before + 1


def test_weights_that_did_not_arrive_are_noticed(root: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "other", seed=9)
    fake = FakeVLLM(str(tmp_path / "other/checkpoints/final"), stale=True)
    with serving(fake) as url, pytest.raises(StepError, match=r"log-probabilities are .* nats a token from the policy"):
        train(root, tmp_path, generation="vllm", server={"url": url, "tolerance": 0.02})


def _set(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda choice: choice.update(fields)


def _score(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda choice: choice["logprobs"]["content"][0].update(fields)


def _shorten(choice: dict[str, Any]) -> None:
    choice["token_ids"], choice["weight_versions"][0]["end"] = [3], 1
    choice["logprobs"]["content"] = [{"token_id": 3, "logprob": -1.0}]


@pytest.mark.parametrize(("faults", "said"), [
    ({"answer": _set(weight_versions=[{"version": "v8", "start": 0, "end": 4}])}, "by 'v8' for tokens 0 to 4, and not"),
    ({"answer": _set(weight_versions=[])}, "by no weights at all, and not all by 'v7'"),
    ({"answer": _set(weight_versions=None)}, "has no one answer with token_ids"),
    ({"answer": _set(token_ids=[999, 1, 2, 3])}, "sampled token 999, which is none of the model's 300"),
    ({"answer": _shorten}, "an answer of 1 tokens that has no stop token"),
    ({"answer": _score(logprob=float("nan"))}, "the log-probability nan, which is none"),
    ({"answer": _score(logprob=-9999.0)}, "the log-probability -9999.0, which is none"),
    ({"answer": _score(token_id=77)}, "gave log-probabilities of the tokens"),
    ({"dead": True}, r"answered /inference/v1/generate with 404: .*no such thing.*; its last words"),
    ({"silent": True}, r"does not answer /inference/v1/generate within 0.5 s \(server.seconds\)")])
def test_nonsense_is_an_error_in_words(root: Path, faults: dict[str, Any], said: str) -> None:
    fake = FakeVLLM(str(root / "base/checkpoints/final"), **faults)
    fake.version = "v7"
    decoding = Decoding([5], 0, 4, 1.0)
    with serving(fake) as url:
        client = Client(url, 0.5 if "silent" in faults else 60, lambda: "its last words")
        with pytest.raises(StepError, match=said):
            client.generate([1, 2], 3, decoding, 300, "v7")


def test_a_server_that_cannot_be_trained_with_is_refused(root: Path, tmp_path: Path) -> None:
    with serving(FakeVLLM(mode="raw")) as url, pytest.raises(InputError, match="logprobs_mode='raw', allowed: process"):
        Client(url, 5).check()
    with pytest.raises(StepError, match=r"does not answer /server_info \("):
        Client("http://127.0.0.1:9", 5).check()
    with pytest.raises(InputError, match=r"generation=vllm starts 'no-vllm', which is no program here: install vLLM"):
        train(root, tmp_path, generation="vllm", server={"command": "no-vllm"})
    check_installed(ServerConfig(url="http://there"))
    with pytest.raises(ValueError, match=r"url='node:8000' is not allowed: it begins with http:// or https://"):
        ServerConfig(url="node:8000")
    with pytest.raises(ValueError, match="server is for generation=vllm, and generation=transformers"):
        RLHFConfig.model_validate({"server": {"gpus": 1}})
    with pytest.raises(ValueError, match="gpus is for a server that the step starts"):
        RLHFConfig.model_validate({"generation": "vllm", "server": {"url": "http://there", "gpus": 1}})


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "vllm"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.fake_vllm "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_a_server_starts_answers_and_ends_with_its_processes(program: str, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    monkeypatch.setenv("RANK", "3")
    server = start_server(ServerConfig(command=program, gpus=2), tmp_path, "float32", 64, tmp_path / "log.txt")
    client = Client(server.url, 5, server.said)
    server.wait(60)
    client.check()
    [group] = (tmp_path / "log.txt").read_text().splitlines()[:1]
    assert "--tensor-parallel-size 2 --gpu-memory-utilization 0.9" in group
    pid = server._keeper.pid
    children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    environment = Path(f"/proc/{children[0]}/environ").read_bytes().split(b"\0")
    assert {b"CUDA_VISIBLE_DEVICES=5,6", b"VLLM_SERVER_DEV_MODE=1"} <= set(environment)
    assert not [each for each in environment if each.startswith(b"RANK=")]
    os.kill(children[0], signal.SIGKILL)
    until(lambda: not alive(children[0]))
    until(lambda: server._keeper.poll() is not None)
    with pytest.raises(StepError, match=r"does not answer /weight_info .*; it ended with exit code 137.*\n  fake vLLM"):
        client.version()
    server.close()


def test_a_server_that_does_not_start_says_why(program: str, tmp_path: Path) -> None:
    config = ServerConfig(command=program, arguments=("--broken",))
    server = start_server(config, tmp_path, "float32", 64, tmp_path / "log.txt")
    with pytest.raises(StepError, match=r"vllm did not start; it ended with exit code 1.*\n(.*\n)*.*no kernel image"):
        server.wait(60)
    server.close()


def test_a_server_ends_when_the_step_is_killed(tmp_path: Path) -> None:
    """The group ends, also what the server itself has started."""
    pids = tmp_path / "pids"
    script = f"import subprocess, sys; subprocess.Popen([sys.executable, {keeper.__file__!r}, 'sh', '-c', " \
             f"'sleep 100 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait'], stdin=subprocess.PIPE).wait()"
    step = subprocess.Popen([sys.executable, "-c", script])
    until(pids.exists)
    started = [int(each) for each in pids.read_text().split()]
    assert all(map(alive, started))
    step.kill()
    step.wait()
    until(lambda: not any(map(alive, started)))


def test_gpus_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(InputError, match=r"server.gpus is 1, and this step sees 1"):
        _environment({}, 1)
    monkeypatch.setenv("ARGOSY_GPUS", "0,1")
    assert _environment({}, 1)["CUDA_VISIBLE_DEVICES"] == "1"
    assert _environment({}, 0)["CUDA_VISIBLE_DEVICES"] == "0"
