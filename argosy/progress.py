"""How far a step is: a small file that the live view and `argosy status` read."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


class Progress:
    """Writes `progress.json` atomically, at most twice a second.

    update(done, total, unit, note): `done` of `total` units ("tokens", "documents", "items"); `note` is a
    short text such as "loss 2.31". Failing to write is ignored: a view is not worth a run.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._started = time.time()
        self._first: float | None = None  # units done before this process (a resumed step)
        self._last = 0.0

    def update(self, done: float, total: float, unit: str = "", note: str = "", *, force: bool = False) -> None:
        """Report that `done` of `total` units are done."""
        if self._first is None:
            self._first = done
        now = time.time()
        if self._path is None or (now - self._last < 0.5 and done < total and not force):
            return
        self._last = now
        rate = (done - self._first) / max(now - self._started, 1e-9)
        record = {"done": done, "total": total, "unit": unit, "note": note, "rate": rate, "time": now}
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(record))
            temporary.replace(self._path)
        except OSError:
            pass
