"""Memory of processes that hold parts of a model: the part and one layer, in every phase that touches all of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_a_process_never_holds_more_than_its_part_and_a_layer() -> None:
    """The whole model would be 1.4 times that in `start`."""
    command = [sys.executable, "-m", "benchmarks.start", "--layers", "24", "--width", "256", "--processes", "2"]
    made = subprocess.run(command, cwd=ROOT, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, text=True,
                          capture_output=True, check=True)
    figures = json.loads(made.stdout.splitlines()[-1])
    assert {phase: round(figures[f"peak_{phase}"], 3) for phase in ("start", "save", "resume")
            if figures[f"peak_{phase}"] > 1.2} == {}
