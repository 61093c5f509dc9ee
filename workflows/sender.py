"""The process that sends what steps log to MLflow, beside a run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workflows.local.observer import RunObserver
from workflows.local.process import ROOT

COMMAND = ("-m", "argosy.tracking", "ship")
LONGEST_WAIT_S = 60.0  # for the last metrics, after the run; what is left then is sent in the background


class Sender(RunObserver):
    """Sends from `start` until `close`; as an observer, prints what it says.

    Args:
        what: `--store DIR` or `--node DIR ...`.
    """

    def __init__(self, what: Sequence[str]) -> None:
        self._what = what
        self._said = 0  # bytes of its messages that were printed
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is

    def start(self) -> None:
        """Begin."""
        self._process = subprocess.Popen(  # in a session of its own: Ctrl-C is for the steps
            [sys.executable, *COMMAND, *self._what, "--until-eof"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=self._messages,
            stderr=self._messages,
            start_new_session=True,
        )

    def on_tick(self) -> None:
        """Print what it has to say, such as that the server does not answer."""
        if text := os.pread(self._messages.fileno(), 1 << 16, self._said):  # it writes at the file's own offset
            self._said += len(text)
            print(text.decode(errors="replace"), end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Let it send what is left, and wait for a while."""
        assert self._process.stdin
        self._process.stdin.close()
        later = shlex.join([Path(sys.executable).name, *COMMAND, *self._what, "--once"])
        for patience, still in (
            (1.0, f"metrics are still being sent to MLflow; this waits {LONGEST_WAIT_S:.0f} s at most"),
            (LONGEST_WAIT_S, "not all metrics are sent to MLflow yet; the rest goes on in the background and is kept "
                             f"on disk. To send it later: {later}"),
        ):  # fmt: skip
            try:
                self._process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                print(f"tracking: {still}", file=sys.stderr)
        self.on_tick()
