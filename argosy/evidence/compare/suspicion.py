"""Benchmarks that checkpoints have likely seen, by the score of contamination."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.results.contamination import LIKELY, Seen


@dataclass
class Suspect:
    """A benchmark with the calibrated score and verdict of each checkpoint that was asked it, by key."""

    task: str
    suspicions: Mapping[str, Seen]

    @property
    def seen(self) -> set[str]:
        """Keys of the checkpoints that have likely seen the test."""
        return {key for key, seen in self.suspicions.items() if seen.verdict == LIKELY}


def suspects(checkpoints: Sequence[Checkpoint]) -> list[Suspect]:
    """Benchmarks with a score, or the reason why there is none, of at least one checkpoint."""
    own = list({c.key: c for c in checkpoints}.values())
    return [Suspect(task, suspicions(own, task)) for task in sorted({task for c in own for task in c.seen})]


def suspicions(checkpoints: Sequence[Checkpoint], task: str) -> dict[str, Seen]:
    return {c.key: c.seen[task] for c in checkpoints if task in c.seen}
