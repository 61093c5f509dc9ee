"""Candidates of a night: checkpoints of a store's finished training steps, and of other stores that MLflow has."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.store.provenance import Identities
from argosy.core.store.step_files import OUTPUTS, read_done
from argosy.model.weights.checkpoint import no_language_model
from workflows.graph import Finished
from workflows.stored.lineage import TrainingStep, step_directories, step_directory, training_step

# Most of a store's directories, and models that are not new.
NOT_TRAINED = ("evaluate-", "regressions-", "judge-", "compare-", "start-")


@dataclass(frozen=True)
class Candidate:
    """One checkpoint of a training step."""

    step: TrainingStep
    export: str

    @property
    def key(self) -> str:
        """The key that ties results to it."""
        return self.step.key(self.export)

    @property
    def label(self) -> str:
        """Its name for people: `sft/p100 (0a1b2c)`."""
        return f"{self.step.stage}/{self.export} ({self.step.digest.removeprefix('directory:')[:6]})"


@dataclass
class Candidates:
    """A store's finished steps by digest, those of them with checkpoints that generate text, and notes on others."""

    steps: dict[str, Path] = field(default_factory=dict)
    training: dict[str, TrainingStep] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, step: TrainingStep | None) -> TrainingStep | None:
        """Add it, where there is one; returns the one that has its digest."""
        return None if step is None else self.training.setdefault(step.digest, step)

    @property
    def lines(self) -> list[str]:
        """The model lines."""
        return sorted({each.line for each in self.training.values()})


def find_candidates(store: Path) -> Candidates:
    """The candidates of a store."""
    candidates = Candidates()
    for digest, path in _finished(store):
        candidates.steps[digest] = path
        candidates.add(generating_step(path, candidates.notes))
    return candidates


def add_elsewhere(candidates: Candidates, paths: Iterable[tuple[str, str]]) -> None:
    """Add checkpoints of other stores: (their name for people, path). Those that cannot be reached are noted."""
    for name, path in paths:
        try:
            directory = step_directory(Path(path)).absolute() if path and Path(path).is_dir() else None
        except InputError:
            continue  # a model from elsewhere, which is evaluated where it is named
        if directory is None:
            candidates.notes.append(f"{name} is in MLflow, but {path or 'its place'} is not to be seen from here.")
            continue
        step = candidates.add(generating_step(directory, candidates.notes))
        if step is not None and step.directory == directory:
            for digest, ancestor_path in _finished(directory.parent):
                candidates.steps.setdefault(digest, ancestor_path)


def _finished(store: Path) -> Iterator[tuple[str, Path]]:
    for digest, path in step_directories(store):
        if not path.name.startswith(NOT_TRAINED) and (path / OUTPUTS).is_file():
            yield digest, path


def generating_step(directory: Path, notes: list[str]) -> TrainingStep | None:
    """The training step in `directory` with its checkpoints that generate text (a reward model does not); None where
    there are none, or it is a point of a sweep. Checkpoints that are gone are noted and left out."""
    step = training_step(directory)
    if step is None or step.record["part"]:  # a point of a sweep is no model of anybody's
        return None
    gone = [name for name, path in step.exports.items() if not (directory / path / "config.json").is_file()]
    if gone:
        notes.append(f"{directory.name}: {', '.join(gone)} disappeared or incomplete; run the step again.")
    left = {name: path for name, path in step.exports.items()
            if name not in gone and not no_language_model(directory / path)}
    return replace(step, exports=left) if step.final in left else None


def from_elsewhere(directory: Path, line: str, identities: Identities) -> TrainingStep:
    """A directory that transformers loads, identified by its bytes. Raises InputError: it is none."""
    if not (directory / "config.json").is_file():
        raise InputError(f"checkpoint {directory} is neither a finished training step nor a model (config.json)")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", directory.name).lstrip("._-") or "model"
    record = {"node": name, "part": "", "digest": identities.of_path(directory, "checkpoint"), "upstream": {}}
    modified = (directory / "config.json").stat().st_mtime
    return TrainingStep(directory, record, {directory.name: "."}, directory.name, line, modified)


def ancestor(candidates: Candidates, record: Mapping[str, Any], step: str) -> Finished | None:
    """The nearest step `step` that something was made from: its data, its tokens."""
    level, visited = list(chain.from_iterable(record["upstream"].values())), set[str]()
    while level:
        paths = [candidates.steps[digest] for digest in level if digest in candidates.steps and digest not in visited]
        records = [(path, done["made_from"]) for path in paths if (done := read_done(path)) is not None]
        visited.update(level)
        for path, made_from in records:
            if made_from["step"] == step:
                return Finished(made_from, str(path))
        level = [digest for _, made_from in records for digests in made_from["upstream"].values() for digest in digests]
    return None
