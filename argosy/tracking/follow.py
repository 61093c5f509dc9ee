"""When the shipper looks: until something has ended, less and less often while a server fails."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from argosy.tracking.shipper import Shipper, Unavailable

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 1.0, 60.0
LONGEST_POLL_S = 10.0


def follow(shipper: Shipper, ended: Callable[[], bool], on_trouble: Callable[[str], None], poll_s: float = 1.0) -> bool:
    """Sweep until `ended`, and once more after it; True when everything was sent.

    A server that fails is asked again after 1, 2, 4, ... 60 s; `on_trouble` hears the reason once for each outage.
    """
    back_off = 0.0
    retry_at = 0.0
    while True:
        last = ended()
        complete = False
        if last or time.monotonic() >= retry_at:
            try:
                complete = shipper.sweep()
                if last and complete:
                    shipper.end_dead()
                back_off = 0.0
            except Unavailable as trouble:
                if not back_off:
                    on_trouble(str(trouble))
                back_off = min(max(2 * back_off, FIRST_BACK_OFF_S), LONGEST_BACK_OFF_S)
                retry_at = time.monotonic() + back_off
                if last:
                    return False
        if last and complete:
            return True
        if complete or back_off:  # looking costs a twentieth of the time at most, however many spools there are
            _pause(min(max(poll_s, 20 * shipper.look_s), LONGEST_POLL_S), ended)


def _pause(seconds: float, ended: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ended():
        time.sleep(min(seconds, 0.25))


def process_ended(pid: int) -> Callable[[], bool]:
    """Whether the process `pid`, which need not be a child, has ended."""
    started = _start_time(pid)

    def ended() -> bool:
        return started is None or _start_time(pid) != started

    return ended


def _start_time(pid: int) -> str | None:
    """When the process started, so that a reused id is not taken for it; None when there is none."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "running"
