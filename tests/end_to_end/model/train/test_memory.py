"""Memory of processes that hold parts of a model: the part and one layer, in every phase that touches all of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.sizing.architecture import of_pipeline
from argosy.model.train.sizing.job import read_job, read_layout
from argosy.model.train.sizing.memory import memory
from tests.training_fixtures import change_settings
from tests.warm import SERVER

ROOT = Path(__file__).parents[4]
BUCKET = 20_000
SMALL = ModelConfig(hidden_size=64, intermediate_size=176, num_hidden_layers=4)


def test_a_process_never_holds_more_than_its_part_and_a_layer() -> None:
    """The whole model would be 1.4 times that in `start`."""
    command = [sys.executable, "-m", "benchmarks.start", "--layers", "24", "--width", "256", "--processes", "2"]
    made = subprocess.run(command, cwd=ROOT, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, text=True,
                          capture_output=True, check=True)
    figures = json.loads(made.stdout.splitlines()[-1])
    assert {phase: round(figures[f"peak_{phase}"], 3) for phase in ("start", "save", "resume")
            if figures[f"peak_{phase}"] > 1.2} == {}


def _measure(out: Path, config: TrainConfig) -> None:
    from tests.unit.model.train.sizing.test_memory import measured

    buckets = {"reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET}
    change_settings(lambda made: made["zero_optimization"].update(buckets))
    out.write_text(str(measured(512, SMALL, config)))


@pytest.mark.parametrize("micro_batch_size", [4, 1])
@pytest.mark.parametrize("options", [
    {"stage": 1}, {"stage": 2}, {"stage": 3}, {"stage": 1, "param_dtype": "bfloat16"},
    {"stage": 2, "param_dtype": "bfloat16"}, {"stage": 3, "param_dtype": "bfloat16"},
    {"stage": 1, "offload": "optimizer"}, {"stage": 2, "offload": "optimizer"},
    {"stage": 3, "offload": "optimizer"}, {"stage": 3, "offload": "all"}])
def test_deepspeed_holds_what_the_planner_says(options: dict[str, Any], micro_batch_size: int, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = options.get("param_dtype", "float32")
    config = TrainConfig.model_validate({
        "dtype": dtype, "global_batch_size": 4, "sequence_length": 32, "micro_batch_size": micro_batch_size,
        "optimizer": "adamw", "engine": {"name": "zero", **options}})
    process = SERVER.Process(target=_measure, args=(tmp_path / "measured", config))
    process.start()
    process.join()
    monkeypatch.setattr("argosy.model.train.sizing.deepspeed.BUCKET", BUCKET)
    fields = config.model_dump()
    job = read_job(fields, of_pipeline(SMALL.model_dump(), 512), on_cpu=True)
    found = memory(job, read_layout(fields, 1, on_cpu=True), context=0)
    assert 0.85 < (found.total + found.cpu) / int((tmp_path / "measured").read_text()) < 1.2
