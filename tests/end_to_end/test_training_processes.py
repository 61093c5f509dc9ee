"""Training as processes: killed at a random moment, on DeepSpeed without a compiler, on several ranks."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.training_fixtures import make_data

ROOT = Path(__file__).parents[2]
CONFIG: dict[str, Any] = {
    "sequence_length": 32, "global_batch_size": 8, "micro_batch_size": 2, "tokens": 24 * 256, "log_every": 4,
    "save_every": 3, "exports": [0.5, 1.0], "dtype": "float32", "weight_decay": 0.1, "max_grad_norm": 0.5,
    "mixture": {"en": 2, "zh": 1}, "heldout_points": 2, "learning_rate": 1e-2,
    "model": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 1},
}
# The ranks of a job share a directory: they are below the step's contract, so the step's function is called.
RANK = """
import sys
from pathlib import Path
from argosy.progress import Progress
from argosy.step import StepContext
from argosy.tracking import Tracker
from steps.pretrain import PretrainConfig, run
run(PretrainConfig.model_validate_json(sys.argv[1]), StepContext(Path(sys.argv[2]), Tracker(None), Progress(None)))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    make_data(directory, {"en": 80, "zh": 40}, words=24)
    return directory


def start(data: Path, out: Path, environment: dict[str, str] | None = None, arguments: list[str] | None = None,
          **fields: Any) -> subprocess.Popen[str]:
    config = json.dumps({"tokenized": str(data), "tokenizer": str(data), **CONFIG, **fields})
    command = [sys.executable, *(arguments or ["-m", "steps.pretrain", "--config"]), config]
    command += [str(out)] if arguments else ["--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ARGOSY_THREADS": "1", **(environment or {})}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def digests(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((out / "checkpoints").rglob("*")) if path.is_file()}


def losses(output: str) -> list[float]:
    """Training losses and gradient norms of the printed lines."""
    return [float(value) for value in re.findall(r"(?:loss|grad) (\d+\.\d+)", output)]


def metrics(out: Path) -> list[str]:
    """The spool's metric records without their times."""
    records = [json.loads(line) for line in (out / "tracking" / "spool.jsonl").read_text().splitlines()]
    return sorted(json.dumps({key: value for key, value in record.items() if key != "time"}, sort_keys=True)
                  for record in records if record["kind"] == "metrics")


def kill_at(process: subprocess.Popen[str], out: Path, step: int) -> None:
    """SIGKILL once `step` optimizer steps are done."""
    progress = out / "progress.json"
    while process.poll() is None and (not progress.exists() or json.loads(progress.read_text())["done"] < step * 256):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("whole") / "pretrain"
    return out, finish(start(data, out))


def test_kill_at_a_random_moment_ends_in_the_same_bytes(data: Path, whole: tuple[Path, str], tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # shown when the test fails
    target = random.Random(seed).randrange(1, 24)
    kill_at(start(data, tmp_path / "pretrain"), tmp_path / "pretrain", target)
    finish(start(data, tmp_path / "pretrain"))
    assert digests(tmp_path / "pretrain") == digests(whole[0])
    written = [json.loads((out / "outputs.json").read_text())["outputs"] for out in (tmp_path / "pretrain", whole[0])]
    assert written[0] == written[1]
    assert metrics(tmp_path / "pretrain") == metrics(whole[0])


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_deepspeed_equals_torch_and_needs_no_compiler(data: Path, whole: tuple[Path, str], tmp_path: Path,
                                                      zero_stage: int) -> None:
    process = start(data, tmp_path / "pretrain", {"PATH": "/nowhere", "CUDA_VISIBLE_DEVICES": ""}, engine="deepspeed",
                    zero_stage=zero_stage)
    assert losses(finish(process)) == pytest.approx(losses(whole[1]), rel=2e-3, abs=0.011)
    names = [set(digests(out)) for out in (tmp_path / "pretrain", whole[0])]
    assert names[0] == names[1]


def test_deepspeed_continues_after_a_kill(data: Path, whole: tuple[Path, str], tmp_path: Path) -> None:
    out, environment = tmp_path / "pretrain", {"CUDA_VISIBLE_DEVICES": ""}
    fields: dict[str, Any] = {"engine": "deepspeed", "zero_stage": 1, "save_every": 1}
    kill_at(start(data, out, environment, **fields), out, 12)
    output = finish(start(data, out, environment, **fields))
    assert re.search(r"continuing after step \d+", output)
    ours = losses(output)
    assert 0 < len(ours) < len(losses(whole[1]))
    assert ours == pytest.approx(losses(whole[1])[-len(ours) :], rel=2e-3, abs=0.011)


def test_two_ranks_train_on_the_same_global_batches(data: Path, whole: tuple[Path, str], tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "CUDA_VISIBLE_DEVICES": ""}
    ranks = [start(data, tmp_path, {**common, "RANK": rank, "LOCAL_RANK": rank}, ["-c", RANK], zero_stage=1)
             for rank in ("0", "1")]
    outputs = [finish(rank) for rank in ranks]
    assert losses(outputs[0]) == pytest.approx(losses(whole[1]), rel=2e-3, abs=0.011)
    assert losses(outputs[1]) == []  # one process speaks
    assert set(digests(tmp_path)) == set(digests(whole[0]))
