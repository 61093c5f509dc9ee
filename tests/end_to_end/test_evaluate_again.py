"""`argosy evaluate` tries again what failed, and leaves alone what did not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.errors import InputError
from evals.task_spec import TaskSpec
from tests.evaluation_fixtures import make_items, save_checkpoint, write_items
from workflows.cli import main


def test_what_failed_is_tried_again_in_its_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path / "model")
    for name in ("good", "flaky"):
        write_items(tmp_path / f"{name}.jsonl", make_items(8))
    (tmp_path / "mine.yaml").write_text("benchmarks: {tasks: {good: [good.jsonl], flaky: [flaky.jsonl]}}")
    command = ["evaluate", str(tmp_path / "model"), "--suite", str(tmp_path / "mine.yaml"), "--store",
               str(tmp_path / "runs"), "--threads", "1"]  # fmt: skip
    read = TaskSpec.read

    def fails(spec: TaskSpec, *args: Any) -> Any:
        if "flaky" in str(spec):
            raise InputError("the network is down")
        return read(spec, *args)

    with monkeypatch.context() as patched:
        patched.setattr(TaskSpec, "read", fails)
        assert main(command) == 1
    directory = Path(capsys.readouterr().out.strip().splitlines()[-1].rpartition(": ")[2])
    assert json.loads((directory / "results.json").read_text())["failed"] == {"bench/flaky": "the network is down"}
    assert main(command) == 0
    assert "bench/flaky failed last time" in capsys.readouterr().out
    results = json.loads((directory / "results.json").read_text())
    assert (results["failed"], results["counts"]["bench/flaky/plain/acc"]) == ({}, 8)
    before = (directory / "results.json").stat().st_mtime_ns
    assert main(command) == 0
    assert (directory / "results.json").stat().st_mtime_ns == before
