"""Errors where the UI shows them: in the pod's termination message."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

TERMINATION_LOG = Path("/dev/termination-log")
_MOST = 2048  # characters that Kubernetes keeps
HAS, NEEDS = "[memory step {}]", "[needs memory step {}]"  # for workflows.argo.memory
_noted = ""


def say_why(message: str) -> None:
    """Print `message`, and make it the reason that the UI shows beside the failed node."""
    print(message, file=sys.stderr, flush=True)
    if TERMINATION_LOG.is_file():  # nothing outside a container
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text((_noted + message)[:_MOST], encoding="utf-8")


def note_memory() -> None:
    """Let the reason begin with how much memory this pod was given, also where it is killed without another word."""
    global _noted
    step = os.environ.get("ARGOSY_MEMORY_STEP", "0")
    if step in ("", "0"):
        return
    _noted = f"{HAS.format(step)} "
    if TERMINATION_LOG.is_file():
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(_noted, encoding="utf-8")
