"""Memory of processes that hold parts of a model: the part and one layer, in every phase that touches all of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.training_fixtures import TINY_MODEL, tiny_engine
from tests.warm import SERVER

ROOT = Path(__file__).parents[4]


def test_a_process_never_holds_more_than_its_part_and_a_layer() -> None:
    """The whole model would be 1.4 times that in `start`."""
    command = [sys.executable, "-m", "benchmarks.start", "--layers", "24", "--width", "256", "--processes", "2"]
    made = subprocess.run(command, cwd=ROOT, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, text=True,
                          capture_output=True, check=True)
    figures = json.loads(made.stdout.splitlines()[-1])
    assert {phase: round(figures[f"peak_{phase}"], 3) for phase in ("start", "save", "resume")
            if figures[f"peak_{phase}"] > 1.2} == {}


def _swaps(out: Path) -> None:
    from deepspeed.runtime.zero import partition_parameters as parts
    parts.AsyncPartitionedParameterSwapper = lambda config, dtype: sys.exit(
        out.write_text(f"{dtype} {config.zero_config.offload_param.buffer_size}"))
    tiny_engine(engine={"name": "zero", "stage": 3, "offload": "all", "nvme_path": "/nvme"})


def test_weights_on_nvme_keep_their_precision_and_fit_its_buffers(tmp_path: Path) -> None:
    process = SERVER.Process(target=_swaps, args=(tmp_path / "begins",))
    process.start()
    process.join()
    assert (tmp_path / "begins").read_text() == f"torch.float32 {64 * TINY_MODEL['hidden_size']}"
