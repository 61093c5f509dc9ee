"""`kill -9` in the middle of post-training, and again: the same bytes and each metric once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.posttraining_fixtures import make_checkpoint, make_data

ROOT = Path(__file__).resolve().parents[2]
STEPS = {
    "sft": ("sft", {"max_steps": 12, "micro_batch_size": 16}),
    "ppo": ("rlhf", {"method": "ppo", "rewards": {"accept": 1, "format": 1}, "max_steps": 12, "max_new_tokens": 8}),
    "grpo": ("rlhf", {"method": "grpo", "rewards": {"accept": 1, "format": 1}, "max_steps": 12, "max_new_tokens": 8}),
}


def start(step: str, config: dict[str, Any], out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"steps.{step}", "--config", json.dumps(config), "--out", str(out)]
    environment = {**os.environ, "ARGOSY_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def exported(out: Path) -> dict[str, str]:
    files = [path for path in sorted((out / "checkpoints").rglob("*")) if path.is_file()]
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def logged(out: Path) -> tuple[Counter[tuple[str, int]], dict[tuple[str, int], float]]:
    counts: Counter[tuple[str, int]] = Counter()
    values = {}
    for line in (out / "tracking/spool.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "metrics":
            for name, value in record["values"].items():
                counts[name, record["step"]] += 1
                values[name, record["step"]] = value
    return counts, values


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint and data for all."""
    root = tmp_path_factory.mktemp("given")
    make_checkpoint(root / "base")
    make_data(root / "data", 256)
    return root


@pytest.mark.parametrize("name", list(STEPS))
def test_killed_and_started_again_is_the_same(name: str, given: Path, tmp_path: Path) -> None:
    step, values = STEPS[name]
    config = {
        "checkpoint": str(given / "base"), "data": str(given / "data"), "heldout_limit": 8, "batch_size": 32,
        "micro_batch_size": 32, "log_every": 2, "save_every": 4, **values,
    }  # fmt: skip
    killed = tmp_path / "killed"
    whole = start(step, config, tmp_path / "whole")
    process = start(step, config, killed)
    while not (killed / "state/checkpoint-4/complete").exists():
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "outputs.json").exists()
    assert start(step, config, killed).wait(120) == 0
    assert whole.wait(120) == 0
    assert exported(killed) == exported(tmp_path / "whole")
    assert (
        json.loads((killed / "outputs.json").read_text())["outputs"]
        == (json.loads((tmp_path / "whole/outputs.json").read_text())["outputs"])
    )
    counts, seen = logged(killed)
    assert max(counts.values()) == 1
    assert seen == logged(tmp_path / "whole")[1]
