"""How far a step is: a small file that the live view and `argosy status` read."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from argosy.storage import write_json

PROGRESS = "progress.json"
_INTERVAL_S = 0.5  # at most so often, so that a fast loop may report every item


class Progress:
    """Writes `progress.json` atomically, at most twice a second.

    update(done, total, unit, note): `done` of `total` units ("tokens", "documents", "items"); `note` is a
    short text such as "loss 2.31". Failing to write is ignored: a view is not worth a run.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._started = time.monotonic()
        self._first: float | None = None  # units done before this process (a resumed step)
        self._last = float("-inf")

    def update(self, done: float, total: float, unit: str = "", note: str = "", *, force: bool = False) -> None:
        """Report that `done` of `total` units are done."""
        if self._first is None:
            self._first = done
        now = time.monotonic()
        if self._path is None or (now - self._last < _INTERVAL_S and done < total and not force):
            return
        self._last = now
        rate = (done - self._first) / max(now - self._started, 1e-9)
        record = {"done": done, "total": total, "unit": unit, "note": note, "rate": rate, "time": time.time()}
        with contextlib.suppress(OSError):
            write_json(self._path, record, durable=False)
