"""Events that a step's process sends to its runner, and where its output goes meanwhile."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError
from argosy.core.store.files import explain

EVENTS = "ARGOSY_EVENTS_FD"  # a pipe to the runner: a JSON line when an item starts and when it ends


@dataclass(frozen=True)
class Outcome:
    """The end of an item. code: exit code, or None where another process holds it and nobody wanted to wait."""

    code: int | None
    message: str
    ran: bool = False


def failure(error: Exception, out: Path) -> dict[str, Any]:
    """Make the record of an error: `exit_code`, `kind`, `message`, `time`."""
    known = error if isinstance(error, ArgosyError) else explain(error, out)
    return {"exit_code": known.exit_code if known else 1, "kind": type(error).__name__, "time": time.time(),
            "message": str(known) if known else f"{type(error).__name__}: {error}"}


class Events:
    """A pipe to the runner, if there is one, which learns when an item starts and how it ends."""

    def __init__(self) -> None:
        number = os.environ.pop(EVENTS, "")
        self._file = int(number) if number else None
        if self._file is not None:
            os.set_inheritable(self._file, False)

    @property
    def has_runner(self) -> bool:
        """Tell whether a runner listens."""
        return self._file is not None

    def __enter__(self) -> "Events":
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


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Exit with 1 and without a traceback where stdout is a pipe that nobody reads any more.

    Output that is still in stdout's buffer at the end counts too: the interpreter's own flush at exit would complain.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
