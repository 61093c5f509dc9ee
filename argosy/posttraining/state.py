"""Resumable states of a Trainer below `<out>/state`: which one is complete, which ones can go."""

from __future__ import annotations

import shutil
from pathlib import Path

from argosy.storage import sync

COMPLETE = "complete"


def latest_state(directory: Path) -> Path | None:
    """The newest complete state, or None; what a crash left half written is deleted."""
    complete: list[Path] = []
    for path in sorted(directory.glob("checkpoint-*"), key=_step):
        if (path / COMPLETE).exists():
            complete.append(path)
        else:
            shutil.rmtree(path)
    return complete[-1] if complete else None


def mark_complete(path: Path) -> None:
    """Declare the state in `path` complete, then delete the older ones.

    Its bytes reach the disk before the mark does. An old state loses its mark before its files.
    """
    for file in sorted(path.rglob("*")):
        if file.is_file():
            sync(file)
    (path / COMPLETE).touch()
    sync(path)
    for old in path.parent.glob("checkpoint-*"):
        if _step(old) < _step(path):
            (old / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(old)


def _step(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
