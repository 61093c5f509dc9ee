"""The spool: an append-only JSONL file of what a step logs; exactly once over crashes and resumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class Tracker:
    """Interface (being written). `directory` is `<out>/tracking`; None logs nowhere (tests)."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log each value at `step`. A (key, step) that the spool already holds is not written again."""

    def params(self, values: Mapping[str, object]) -> None:
        """Log params (flattened config values)."""

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags of the stage's run."""

    def artifact(self, path: Path, folder: str = "") -> None:
        """Log a small file below `<out>` as an artifact of the stage's run."""

    def model(self, name: str, path: Path, *, stage: str, step: int, tokens: int,
              tags: Mapping[str, str] | None = None) -> None:
        """Register an exported checkpoint (a directory below `<out>`) as an external LoggedModel."""

    def model_metrics(self, checkpoint: Path, values: Mapping[str, float], *, tokens: int,
                      dataset: str = "", dataset_digest: str = "") -> None:
        """Log evaluation results against the LoggedModel of `checkpoint` and its dataset, and on the model
        line's curve run at step = tokens."""
