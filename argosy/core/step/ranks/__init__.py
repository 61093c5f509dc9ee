"""Ranks: the processes of a step that runs as several, in groups that torch's elastic agent starts, one for each node.

`rounds` decides who takes part, and what follows a failure; `group` runs the ranks of one node; `launcher` speaks to
the groups of several, a `member` each; `rank` is what each process does; `diagnosis` names the one to blame."""

from pathlib import Path
from typing import Literal

from argosy.core.store.lease import seconds_from

RANKS = "ARGOSY_RANKS"
"""Names the folder to a rank."""
TASK = "task.json"
TIMEOUT = "ARGOSY_RANK_TIMEOUT"
HANG = "ARGOSY_HANG_SECONDS"
NODE_TIMEOUT = "ARGOSY_NODE_TIMEOUT"
Name = Literal["beat", "late", "stack", "end"]


def rank_timeout() -> float:
    """Return the seconds without a sign of life after which a rank counts as frozen (ARGOSY_RANK_TIMEOUT, 300)."""
    return seconds_from(TIMEOUT, 300)


def hang_timeout() -> float:
    """Return the seconds that a training step may take at least before it hangs (ARGOSY_HANG_SECONDS, 60)."""
    return seconds_from(HANG, 60)


def node_timeout() -> float:
    """Return the seconds without a sign of life after which a node counts as lost (ARGOSY_NODE_TIMEOUT, 30)."""
    return seconds_from(NODE_TIMEOUT, 30)


def file_of(folder: Path, name: Name, rank: int) -> Path:
    """Name a file of a rank: `beat`, which it touches as long as it lives; `late`, in which it says that its training
    step hangs; `stack`, for its stacks on SIGUSR2; `end`, the record of what it returned, or of how it failed."""
    return folder / f"{name}-{rank}{'.json' if name == 'end' else ''}"


def group_of(folder: Path) -> Path:
    """Name the file that the watch over the ranks touches as long as it lives."""
    return folder / "group"
