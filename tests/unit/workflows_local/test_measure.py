"""Layouts that are tried on this machine: a process's steps, the processes of one, and the table of all."""

import json
from pathlib import Path
from typing import Any

import pytest

import workflows.local.measure as measuring
import workflows.local.probe as probing
from argosy.core.errors import StepError
from argosy.planning.choice import Speed
from tests.command_line import Argosy
from workflows.local.measure import TASK, Measured, measure, run_rank

MODEL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "max_position_embeddings": 64}
TASKED = {"steps": 2, "model": MODEL, "vocab_size": 64,
          "config": {"sequence_length": 16, "global_batch_size": 4, "dtype": "float32"}}


def test_a_process_trains_the_steps_and_says_how_long_they_take(tmp_path: Path) -> None:
    (tmp_path / TASK).write_text(json.dumps(TASKED))
    found = run_rank(tmp_path, 0, 1)
    assert found["seconds"] > 0
    assert found["peak"] > 0


def test_a_process_that_fails_or_hangs_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nif [ $RANK = 1 ]; then echo first; echo no memory; exit 3; fi; exec sleep 100\n')
    python.chmod(0o755)
    monkeypatch.setattr(measuring.sys, "executable", str(python))
    task = {**TASKED, "config": {**TASKED["config"], "processes": 2}}
    with pytest.raises(StepError, match="rank 1 failed: no memory"):
        measure(task, tmp_path, 60)
    with pytest.raises(StepError, match="took longer"):
        measure({**task, "config": {"processes": 1}}, tmp_path, 0.1)


def test_the_fastest_layout_is_named_and_written(tmp_path: Path, argosy: Argosy,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[dict[str, Any]] = []

    def measured(task: dict[str, Any], folder: Path, patience: float) -> Measured:
        tried.append(task["config"])
        if len(tried) == 1:
            raise StepError("rank 1 failed: no memory")
        return Measured(1 / len(tried), 100.0 * len(tried), 0.0, 1e9)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(measuring, "measure", measured)
    links = {"all-reduce": 1e9, "all-gather": 1e9, "reduce-scatter": 3e8}
    monkeypatch.setattr(probing, "probe", lambda *_: Speed(3e10, 2e10, links, 3e-4, 5e-6, 1e-3, 0.2, {"zero-3": 0.01}))
    out = tmp_path / "best.yaml"
    given = ("size", "--preset", "tiny", "--gpus", "2", "--measure", "2")
    said = argosy(*given, "--out", str(out)).out
    assert len(tried) == 4
    assert {each["processes"] for each in tried} == {2}
    assert "rank 1 failed: no memory" in said
    assert "The measured order is not that of the planner" in said
    best = f"pretrain:\n  processes: 2\n  {'engine: {name: zero' if 'zero' in tried[-1]['engine'] else ''}"
    assert out.read_text().startswith(best.rstrip())
    assert out.read_text() in said
    assert "leave out --zero" in argosy(*given, "--zero", "1", code=2).err
    assert "--measure is 0, allowed" in argosy("size", "--preset", "tiny", "--measure", "0", code=2).err
    assert "--out is of --measure" in argosy("size", "--out", str(out), code=2).err
