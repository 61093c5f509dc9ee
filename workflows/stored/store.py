"""The checkpoints of a store with what evaluation says of them, and the lines that they make."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.core.store.step_files import read_done
from argosy.evidence.compare.checkpoints import Checkpoint, Checkpoints, read_checkpoints
from argosy.evidence.results.items import in_order
from workflows.stored.lineage import ASIDE, TrainingStep, lineage_of, training_step

COMPARISONS = ("compare-", "regressions-", "judge-")


class Stored:
    """A store; its outputs.json are read once, when first asked for.

    Args:
        others: stores whose evaluations of its checkpoints count too."""

    def __init__(self, store: Path, others: Sequence[Path] = ()) -> None:
        self.store = store
        self._others = others

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """All, parents first, with metrics of all finished evaluations; the newest where two asked the same."""
        found = read_checkpoints([t.directory for t in self.trained.values()], [])
        found.notes.clear()
        for directory, outputs, digest in self._evaluations:
            found.add(directory, outputs, digest)
        return found

    @cached_property
    def trained(self) -> dict[str, TrainingStep]:
        """Return training steps by digest, parents first."""
        known = {t.digest: t for directory, done in self._done if (t := training_step(directory, done)) is not None}
        ordered: dict[str, TrainingStep] = {}
        for each in known.values():
            ordered |= {t.digest: t for t in (*reversed(lineage_of(each, known)), each)}
        return ordered

    @property
    def lines(self) -> list[str]:
        return sorted({t.line for t in self.trained.values()})

    def by_key(self, key: str) -> Checkpoint | None:
        return next((c for c in self.checkpoints.every if c.key == key), None)

    def history(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """Evaluated checkpoints that led to this one, by tokens."""
        return [c for c in self.checkpoints.line(checkpoint) if c.metrics]

    def ends(self, line: str) -> list[TrainingStep]:
        """Steps of a line that none of its steps goes on from: the one trained longest comes first, then the newest."""
        own = [t for t in self.trained.values() if t.line == line]
        sources = {t.source for t in own}
        evaluated = {c.digest for c in self.checkpoints.every if c.metrics}
        ends = [t for t in own if t.digest in evaluated - sources]
        return sorted(ends, key=lambda t: (t.stage in ASIDE, -len(lineage_of(t, self.trained)), -t.ended, t.digest))

    def last(self, trained: TrainingStep) -> Checkpoint:
        """Its last evaluated checkpoint, else the last one."""
        own = [c for c in self.checkpoints.every if c.digest == trained.digest]
        return next((c for c in reversed(own) if c.metrics), own[-1])

    @cached_property
    def _done(self) -> list[tuple[Path, dict[str, Any]]]:
        return _finished(self.store)

    @cached_property
    def _evaluations(self) -> list[tuple[Path, dict[str, Any], str]]:
        """Directory, outputs and the digest of the step that made the checkpoint; what counts comes last."""
        elsewhere = [each for other in self._others for each in _finished(other)]
        found = {path: (path, outputs, source) for path, outputs, source in _evaluations(self._done)}
        found |= {each[0]: each for each in _evaluations(elsewhere) if each[2] in self.trained}
        return [found[path] for path, _ in in_order([each for each in (*self._done, *elsewhere) if each[0] in found])]


def _finished(store: Path) -> list[tuple[Path, dict[str, Any]]]:
    paths = sorted(p for p in store.iterdir() if p.is_dir()) if store.is_dir() else []
    paths = [p for p in paths if not p.name.startswith((*COMPARISONS, "."))]
    return [(path, done) for path in paths if (done := read_done(path)) is not None]


def _evaluations(done: list[tuple[Path, dict[str, Any]]]) -> Iterator[tuple[Path, dict[str, Any], str]]:
    for path, record in done:
        outputs, sources = record["outputs"], record["made_from"]["upstream"].get("checkpoint", [])
        about = outputs.get("checkpoint")
        if len(sources) == 1 and isinstance(outputs.get("metrics"), dict) and isinstance(about, dict):
            yield path, outputs, sources[0]
