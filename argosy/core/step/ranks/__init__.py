"""Ranks: the processes of a step that runs as several, in groups that torch's elastic agent starts, one for each node.

`rounds` decides who takes part, and what follows a failure; `group` runs the ranks of one node; `launcher` speaks to
the groups of several, which are a `member` each; `rank` is what each process does; `diagnosis` says which one is to
blame."""


from pathlib import Path

from argosy.core.store.lease import seconds_from

RANKS = "ARGOSY_RANKS"
"""Names the folder to a rank."""
TASK = "task.json"
TIMEOUT = "ARGOSY_RANK_TIMEOUT"
HANG = "ARGOSY_HANG_SECONDS"
NODE_TIMEOUT = "ARGOSY_NODE_TIMEOUT"


def rank_timeout() -> float:
    """Return the seconds without a sign of life after which a rank counts as frozen (ARGOSY_RANK_TIMEOUT, 300)."""
    return seconds_from(TIMEOUT, 300)


def hang_timeout() -> float:
    """Return the seconds that a training step may take at least before it hangs (ARGOSY_HANG_SECONDS, 60)."""
    return seconds_from(HANG, 60)


def node_timeout() -> float:
    """Return the seconds without a sign of life after which a node counts as lost (ARGOSY_NODE_TIMEOUT, 30)."""
    return seconds_from(NODE_TIMEOUT, 30)


def beat_of(folder: Path, rank: int) -> Path:
    """Name the file that the rank touches as long as it lives."""
    return folder / f"beat-{rank}"


def group_of(folder: Path) -> Path:
    """Name the file that the watch over the ranks touches as long as it lives."""
    return folder / "group"


def late_of(folder: Path, rank: int) -> Path:
    """Name the file in which the rank says that its training step hangs."""
    return folder / f"late-{rank}"


def stack_of(folder: Path, rank: int) -> Path:
    """Name the file into which the rank writes its stacks on SIGUSR2."""
    return folder / f"stack-{rank}"


def end_of(folder: Path, rank: int) -> Path:
    """Name the record of what the rank returned, or of how it failed."""
    return folder / f"end-{rank}.json"
