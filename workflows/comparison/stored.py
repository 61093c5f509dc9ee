"""The checkpoints of a store with what evaluation says of them, and the lines that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.comparison.precedence import in_order
from argosy.report.checkpoints import Checkpoint, Checkpoints
from argosy.report.load import read_checkpoints
from argosy.step_files import RUN, TRACKING, read_done
from argosy.storage import read_record
from argosy.tracking.batches import owner_of
from argosy.tracking.records import SPOOL

ASIDE = ("twin",)  # has seen the test on purpose: no end of a line, unless it is named
COMPARISONS = ("compare-", "judge-")


@dataclass(frozen=True)
class Trained:
    """A finished step with checkpoints."""

    directory: Path
    digest: str
    stage: str
    source: str
    line: str
    ended: float


class Stored:
    """A store; its outputs.json are read once, when first asked for."""

    def __init__(self, store: Path) -> None:
        self.store = store

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """All, parents first, with metrics of all finished evaluations; the newest where two asked the same."""
        found = read_checkpoints([t.directory for t in self.trained.values()], [])
        found.notes.clear()
        by_key = {c.key: c for c in found.every}
        for directory, outputs, digest in self._evaluations:
            about = outputs["checkpoint"]
            key = f"{digest}/{about['name']}"
            if key not in by_key:  # a model that no step of the store made
                step, tokens = (int(about.get(name) or 0) for name in ("step", "tokens"))
                by_key[key] = Checkpoint(key, digest, about.get("stage") or about["name"], about["name"], step, tokens,
                                         label=about["name"])
                found.every.append(by_key[key])
            add_results(by_key[key], directory, outputs)
        return found

    @cached_property
    def trained(self) -> dict[str, Trained]:
        """By digest, those that others were made from first."""
        known = {t.digest: t for directory, done in self._done if (t := _trained(directory, done)) is not None}
        ordered: dict[str, Trained] = {}
        for each in known.values():
            before, chain = each, [each]
            while (source := known.get(before.source)) is not None and source not in chain:
                chain.append(source)
                before = source
            ordered |= {t.digest: t for t in reversed(chain)}
        return ordered

    @property
    def lines(self) -> list[str]:
        """Names of the model lines."""
        return sorted({t.line for t in self.trained.values()})

    def by_key(self, key: str) -> Checkpoint | None:
        """The checkpoint `<digest>/<export>`."""
        return next((c for c in self.checkpoints.every if c.key == key), None)

    def history(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """Evaluated checkpoints that led to this one, by tokens."""
        return [c for c in self.checkpoints.line(checkpoint) if c.metrics]

    def ends(self, line: str) -> list[Trained]:
        """Steps of a line that none of its steps goes on from: the one trained longest comes first, then the newest."""
        own = [t for t in self.trained.values() if t.line == line]
        sources = {t.source for t in own}
        ends = [t for t in own if t.digest not in sources and self._evaluated(t)]
        return sorted(ends, key=lambda t: (t.stage in ASIDE, -self._depth(t), -t.ended, t.digest))

    def last(self, trained: Trained) -> Checkpoint:
        """Its last evaluated checkpoint, else the last one."""
        own = [c for c in self.checkpoints.every if c.digest == trained.digest]
        return next((c for c in reversed(own) if c.metrics), own[-1])

    def _evaluated(self, trained: Trained) -> bool:
        return any(c.metrics for c in self.checkpoints.every if c.digest == trained.digest)

    def _depth(self, trained: Trained) -> int:
        depth, seen = 0, {trained.digest}
        while (before := self.trained.get(trained.source)) is not None and before.digest not in seen:
            trained, depth = before, depth + 1
            seen.add(trained.digest)
        return depth

    @cached_property
    def _done(self) -> list[tuple[Path, dict[str, Any]]]:
        paths = sorted(p for p in self.store.iterdir() if p.is_dir()) if self.store.is_dir() else []
        paths = [p for p in paths if not p.name.startswith((*COMPARISONS, "."))]
        return [(path, done) for path in paths if (done := read_done(path)) is not None]

    @cached_property
    def _evaluations(self) -> list[tuple[Path, dict[str, Any], str]]:
        """Directory, outputs and the digest of the step that made the checkpoint; what counts comes last."""
        found = {path: (path, outputs, source) for path, outputs, source in _evaluations(self._done)}
        return [found[path] for path, _ in in_order([each for each in self._done if each[0] in found])]


def add_results(c: Checkpoint, directory: Path, outputs: dict[str, Any]) -> None:
    """Add what an evaluation found to its checkpoint."""
    c.evaluations.append(directory)
    c.chat = bool(outputs["checkpoint"].get("chat"))
    c.metrics |= outputs["metrics"]
    c.stderr |= outputs.get("stderr", {})
    c.counts |= outputs.get("counts", {})
    c.left_out |= outputs.get("left_out", {})
    c.headline |= outputs.get("headline", {})


def _evaluations(done: list[tuple[Path, dict[str, Any]]]) -> Iterator[tuple[Path, dict[str, Any], str]]:
    for path, record in done:
        outputs, sources = record["outputs"], record["made_from"]["upstream"].get("checkpoint", [])
        about = outputs.get("checkpoint")
        if len(sources) == 1 and isinstance(outputs.get("metrics"), dict) and isinstance(about, dict):
            yield path, outputs, sources[0]


def _trained(directory: Path, done: dict[str, Any]) -> Trained | None:
    made = done["made_from"]
    if not done["outputs"].get("exports"):
        return None
    source = str(next(iter(made["upstream"].get("checkpoint", [])), ""))
    return Trained(directory, str(made["digest"]), str(made["node"]), source, line_of(directory), _ended(directory))


def line_of(directory: Path) -> str:
    """The model line that a step's directory was made for."""
    spool = directory / TRACKING / SPOOL
    return owner_of(spool).line if spool.is_file() and spool.stat().st_size else "argosy"


def _ended(directory: Path) -> float:
    ended = read_record(directory / RUN).get("ended")
    return float(ended) if isinstance(ended, int | float) else 0.0
