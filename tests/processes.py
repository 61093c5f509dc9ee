"""Processes that a test starts or waits for."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_python(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python at the root of the checkout, with some variables more, and keep what it prints."""
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": str(ROOT), **environment})


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether there is such a process, and not only what is left of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
