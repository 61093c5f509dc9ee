"""What a person reads when a run has ended."""

from __future__ import annotations

import os
from pathlib import Path

from argosy.step_files import LOG
from workflows.local.observer import RunResult

_LOG_LINES = 12


def duration(seconds: float) -> str:
    """`m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary(result: RunResult) -> list[str]:
    """What ran, what was done before, what failed and where to look, how to go on."""
    counts = ((status, len(result.having(status))) for status in ("ran", "skipped", "failed", "blocked", "stopped"))
    text = ", ".join(f"{count} {status}" for status, count in counts if count) or "nothing to do"
    lines = [f"{text} in {duration(result.seconds)}"]
    for failure in result.having("failed"):
        log = Path(failure.node.dir, LOG)
        lines += ["", f"{failure.node.id} failed: {failure.message}"]
        lines += [*(f"  | {line}" for line in tail(log)), f"  log: {log}"]
    if result.having("failed"):
        again = "correct the config or the input" if result.exit_code == 2 else "mend the cause"
        lines += ["", f"Then {again} and run the same command again: what is done stays done."]
    elif result.having("stopped"):
        lines += ["", "Stopped. Run the same command again to go on from here."]
    return lines


def tail(path: Path, lines: int = _LOG_LINES) -> list[str]:
    """The last lines of a log that may be long, or absent."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * lines))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []
