"""The speed of this machine's processes: what is made of the seconds, and a lone process's own."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.gpus import head_flops, training_flops
from argosy.model.train.sizing.job import Job, Layout
from tests.unit.workflows_local.test_measure import MODEL, TASKED
from workflows.local.measure import TASK
from workflows.local.probe import COLLECTIVES, run_rank, speed

SHAPES = read_architecture({"model_type": "llama", "vocab_size": 64, **MODEL})
JOB = Job(SHAPES, 16, 4, precision="float32")


def test_a_speed_is_the_one_that_the_seconds_were_made_of() -> None:
    """A machine of 1e9 operations a second, 3 ms for a block's 120 small ones, and 0.3 of a block undivided."""
    few, many = (training_flops(JOB, Layout(), samples * 16) / 1e9 for samples in (2, 4))
    blocks = many - head_flops(SHAPES, 4 * 16) / 1e9
    found: dict[str, Any] = {
        "few": few + 0.006, "many": many + 0.006, "half": many + 0.006 - 0.7 * blocks / 2, "bandwidth": 1e10,
        "latency": 0.0, "engines": {}, **dict.fromkeys(COLLECTIVES, 1e30)}
    made = speed(found, JOB, (2, 4), 2)
    assert (made.flops, made.operation, made.whole) == pytest.approx((1e9, 0.003 / 120, 0.3))
    engines = {"torch": 0.1, "fsdp": 0.1, "zero-3": 0.4}
    made = speed({**found, "engines": engines}, JOB, (2, 4), 2)
    assert made.engines == pytest.approx({"fsdp": 0.0, "zero-3": 0.15})  # of two blocks
    assert 0.04 < made.update < 0.05  # half of what plain torch takes beside the arithmetic
    noisy = speed({**found, "few": 2 * found["many"]}, JOB, (2, 4), 2)
    assert (noisy.operation, noisy.flops) == (0.0, pytest.approx(many * 1e9 / found["many"]))
    deep = replace(JOB, model=replace(SHAPES, layers=20))
    assert speed(found, deep, (2, 4), 2).flops == pytest.approx(1e9)  # two of its blocks were timed


def test_a_lone_process_measures_itself(tmp_path: Path) -> None:
    (tmp_path / TASK).write_text(json.dumps({**TASKED, "samples": [1, 4]}))
    found = run_rank(tmp_path, 0, 1)
    assert all(found[name] > 0 for name in ("few", "many", "bandwidth"))
    assert "half" not in found  # one head of keys and values is not divided
    assert found["engines"] == {}
    assert "latency" not in found
