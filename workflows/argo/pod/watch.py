"""What a pod shows while a batch runs: the steps' output as its log, and its progress in the UI."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from argosy.progress import PROGRESS
from argosy.step_files import LOG
from argosy.storage import read_record
from workflows.local.observer import NodeResult, RunObserver
from workflows.plan import PlannedNode


class Echo(RunObserver):
    """Copies what the running nodes print to stdout."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def on_start(self, node: PlannedNode) -> None:
        """From now on; what earlier attempts printed is in the store."""
        log = Path(node.dir) / LOG
        self._read.setdefault(log, log.stat().st_size if log.exists() else 0)

    def on_tick(self) -> None:
        """Copy what is new."""
        for log, start in self._read.items():
            with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
                file.seek(start)
                text = file.read()
                self._read[log] = start + len(text)
                sys.stdout.write(text.decode(errors="replace"))
        sys.stdout.flush()

    def on_finish(self, result: NodeResult) -> None:
        """Copy the rest, and look there no more."""
        self.on_tick()
        self._read.pop(Path(result.node.dir) / LOG, None)


class ArgoProgress(RunObserver):
    """Writes `done/total` to the file from which Argo's executor takes the node's progress."""

    SCALE = 1000  # of a single node

    def __init__(self, nodes: int) -> None:
        self._nodes, self._done = nodes, 0
        self._running: PlannedNode | None = None
        self._file = os.environ.get("ARGO_PROGRESS_FILE", "")
        self._last = ""

    def on_start(self, node: PlannedNode) -> None:
        """Its progress.json is read from now on."""
        self._running = node

    def on_finish(self, result: NodeResult) -> None:
        """One more is done."""
        self._running, self._done = None, self._done + 1

    def on_tick(self) -> None:
        """Write what has changed."""
        record = read_record(f"{self._running.dir}/{PROGRESS}") if self._running else {}
        share = record["done"] / record["total"] if record.get("total") else 0.0
        done = int((self._done + min(share, 1.0)) * self.SCALE)
        text = f"{done}/{self._nodes * self.SCALE}"
        if self._file and text != self._last:
            with contextlib.suppress(OSError):
                Path(self._file).write_text(text, encoding="utf-8")
            self._last = text
