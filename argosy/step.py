"""The contract of a step: a frozen config, a function `run(config, context) -> outputs`, a one-line main.

A step reads only what its config names and writes only below `context.out`. `outputs.json`, written last
and atomically, means done; it holds nothing that differs between two runs of the same config (times,
hosts and the MLflow run are in `run.json` beside it), so a laptop's and a cluster's are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from argosy.config import Config
from argosy.progress import Progress
from argosy.step_files import OUTPUTS, read_outputs
from argosy.tracking import Tracker

__all__ = ["OUTPUTS", "Step", "StepContext", "read_outputs"]

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class StepContext:
    """What a step may use beside its config."""

    out: Path  # the only directory that the step writes
    tracker: Tracker  # metrics, params, artifacts and models; never blocks, never fails
    progress: Progress  # how far it is, for the live view


@dataclass(frozen=True)
class Step(Generic[C]):
    """A step as the graph sees it. A module `steps/<name>.py` has one, named STEP.

    Attributes:
        name: the module's name below `steps`.
        config: its config class; fields with a role are wired by the graph (see argosy.config).
        run: does the work; returns the outputs (a Config; paths in it are relative to `context.out`).
            Started again after a crash, it continues from what it finds below `context.out`.
        version: raised by whoever changes what the step makes of the same config.
        needs: the image that it runs in on a cluster: `data` (without torch) or `train`.
    """

    name: str
    config: type[C]
    run: Callable[[C, StepContext], Config]
    version: int = 1
    needs: Literal["data", "train"] = "data"

    def main(self, argv: Sequence[str] | None = None) -> None:
        """`python -m steps.<name> --config JSON --out DIR`; exits 0, 1 (failed) or 2 (wrong input)."""
        from argosy.step_main import step_main

        step_main(self, argv)
