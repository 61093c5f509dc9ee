"""How a step's process speaks to its runner, and where its output goes meanwhile."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError
from argosy.step_run import Outcome

EVENTS = "ARGOSY_EVENTS_FD"  # a pipe to the runner: a JSON line when an item starts and when it ends


class Events:
    """Tells the runner, if there is one, when an item starts and how it ends."""

    def __init__(self) -> None:
        number = os.environ.pop(EVENTS, "")
        self._file = int(number) if number else None
        if self._file is not None:
            os.set_inheritable(self._file, False)

    @property
    def heard(self) -> bool:
        """Whether a runner listens."""
        return self._file is not None

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def run(self, out: Path, work: Callable[[], Outcome]) -> Outcome:
        """Do `work`, the item of `out`; an error that is for people becomes its outcome."""
        self._send({"event": "start", "out": str(out)})
        try:
            outcome = work()
        except ArgosyError as error:
            outcome = Outcome(error.exit_code, str(error))
        self._send({"event": "end", "out": str(out), "code": outcome.code, "message": outcome.message,
                    "ran": outcome.ran})
        return outcome

    def _send(self, event: dict[str, Any]) -> None:
        if self._file is None:
            return
        with suppress(OSError):  # the runner may be gone
            os.write(self._file, (json.dumps(event) + "\n").encode())


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Send stdout and stderr, those of C libraries and child processes too, to the end of `path`."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(log)
