"""Resumable state below `<out>/state`: complete or absent, only the newest is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from argosy.storage import publish
from argosy.training.engine import Engine

PREFIX = "step-"


class StateStore:
    """States of one phase, each a directory `step-<n>` that is renamed into place when all of it is on the disk."""

    def __init__(self, directory: Path, engine: Engine) -> None:
        self._directory = directory
        self._engine = engine

    def save(self, step: int, extra: dict[str, Any]) -> None:
        """Keep the state after `step` steps, with the tensors and numbers of `extra`, and drop the older ones."""
        temporary = self._directory / f".{PREFIX}{step:08d}.tmp"
        if self._engine.rank == 0:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        self._barrier()
        self._engine.save(temporary)
        self._barrier()
        if self._engine.rank == 0:
            torch.save({"step": step, "rng": torch.get_rng_state(), **extra}, temporary / "loop.pt")
            publish(temporary, self._directory / f"{PREFIX}{step:08d}")
            for older in self._complete()[:-1]:
                shutil.rmtree(older)
        self._barrier()

    def load(self) -> dict[str, Any] | None:
        """Bring the engine to the newest state; returns what `save` was given, and `step`. None where there is none."""
        states = self._complete()
        if not states:
            return None
        self._engine.load(states[-1])
        with torch.serialization.safe_globals([np.ndarray]):
            loop: dict[str, Any] = torch.load(states[-1] / "loop.pt", weights_only=True)
        torch.set_rng_state(loop.pop("rng"))
        return loop

    def _complete(self) -> list[Path]:
        return sorted(self._directory.glob(f"{PREFIX}*"))

    def _barrier(self) -> None:
        self._engine.sum_over_processes(torch.zeros((), device=self._engine.device))
