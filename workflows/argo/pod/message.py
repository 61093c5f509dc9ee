"""Errors where the UI shows them: in the pod's termination message."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

TERMINATION_LOG = Path("/dev/termination-log")
_MOST = 2048  # characters that Kubernetes keeps
_noted = ""


def say_why(message: str) -> None:
    """Print `message`, and make it the reason that the UI shows beside the failed node."""
    print(message, file=sys.stderr, flush=True)
    if TERMINATION_LOG.is_file():  # nothing outside a container
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text((_noted + message)[:_MOST], encoding="utf-8")


def note(text: str) -> None:
    """Make `text` begin the reason, also where this process is killed without another word."""
    global _noted
    _noted = f"{text} "
    if TERMINATION_LOG.is_file():
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(_noted, encoding="utf-8")
