"""The checkpoints that there are: of a store's finished training steps, and others that MLflow knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.identity import Identities
from argosy.provenance import DIGITS
from argosy.step_files import OUTPUTS, TRACKING, ended, read_done
from argosy.storage import read_record
from argosy.tracking.batches import owner_of
from argosy.tracking.records import SPOOL
from workflows.lineage import step_directory
from workflows.node import Finished

FINAL = "final"
NOT_TRAINED = ("evaluate-", "judge-", "compare-")  # most of a store's directories


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished step with checkpoints that generate text, or a model from elsewhere.

    Attributes:
        record: the `made_from` of its outputs.json.
        exports: names of its checkpoints, in the order of training.
        final: the one that the step calls final.
        ended: seconds since the epoch.
    """

    directory: Path
    record: Mapping[str, Any]
    exports: tuple[str, ...]
    final: str
    line: str
    ended: float

    @property
    def stage(self) -> str:
        """The node's name."""
        return str(self.record["node"])

    @property
    def digest(self) -> str:
        """Of all that it was made from."""
        return str(self.record["digest"])

    @property
    def source(self) -> str:
        """Digest of the step whose checkpoint it goes on from; "" for none."""
        return str(next(iter(self.record["upstream"].get("checkpoint", [])), ""))

    def key(self, export: str) -> str:
        """What ties results to the checkpoint `export`."""
        return f"{self.digest}/{export}"

    def finished(self) -> Finished:
        """As a graph begins with it."""
        names = [FINAL if name == self.final else name for name in self.exports]
        return Finished(self.record, str(self.directory), tuple(names))


@dataclass
class Found:
    """All of a store's finished steps by digest, those of them with checkpoints, and what is wrong with others."""

    steps: dict[str, Path] = field(default_factory=dict)
    trained: dict[str, Trained] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, trained: Trained | None) -> Trained | None:
        """Note it, where there is something; returns the one that is known by its digest."""
        return None if trained is None else self.trained.setdefault(trained.digest, trained)

    @property
    def lines(self) -> list[str]:
        """The model lines."""
        return sorted({each.line for each in self.trained.values()})


def find(store: Path) -> Found:
    """What `store` holds."""
    found = Found()
    for path in sorted(store.iterdir()) if store.is_dir() else ():
        digest = path.name.rpartition("-")[2]
        if len(digest) == DIGITS and not path.name.startswith(NOT_TRAINED) and (path / OUTPUTS).is_file():
            found.steps[digest] = path
            found.add(read_trained(path, found.notes))
    return found


def add_known(found: Found, paths: Iterable[tuple[str, str]]) -> None:
    """Add checkpoints that lie elsewhere: (their name for people, path). What cannot be reached is noted."""
    for name, path in paths:
        try:
            directory = step_directory(Path(path)) if path and Path(path).is_dir() else None
        except InputError:
            continue  # a model from elsewhere, which is evaluated where it is asked for by name
        if directory is None:
            found.notes.append(f"{name} is in MLflow, but {path or 'its place'} is not to be seen from here.")
            continue
        trained = found.add(read_trained(directory.absolute(), found.notes))
        if trained is not None and trained.directory == directory.absolute():
            _add_ancestors(found, directory.absolute().parent)


def _add_ancestors(found: Found, store: Path) -> None:
    """Steps of another store, which its checkpoints are made from."""
    for path in store.iterdir():
        digest = path.name.rpartition("-")[2]
        if len(digest) == DIGITS and not path.name.startswith(NOT_TRAINED) and (path / OUTPUTS).is_file():
            found.steps.setdefault(digest, path)


def read_trained(directory: Path, notes: list[str]) -> Trained | None:
    """The training step in `directory`; None for another step. Checkpoints that are gone are noted and left out."""
    done = read_done(directory)
    if done is None or not done["outputs"].get("exports"):
        return None
    exports = sorted(done["outputs"]["exports"], key=lambda entry: int(entry["step"]))
    gone = [entry["name"] for entry in exports if not (directory / entry["path"] / "config.json").is_file()]
    if gone:
        notes.append(f"{directory.name}: {', '.join(gone)} disappeared or incomplete; run the step again.")
    names = [entry["name"] for entry in exports if entry["name"] not in gone and _generates(directory / entry["path"])]
    last = done["outputs"].get("final", exports[-1]["path"])
    final = next((entry["name"] for entry in exports if entry["path"] == last), exports[-1]["name"])
    if final not in names:
        return None
    return Trained(directory, done["made_from"], tuple(names), final, _line(directory), ended(directory))


def from_elsewhere(directory: Path, line: str, identities: Identities) -> Trained:
    """A directory that transformers loads, known by its bytes.

    Raises:
        InputError: it is none.
    """
    if not (directory / "config.json").is_file():
        raise InputError(f"checkpoint {directory} is neither a finished training step nor a model (config.json)")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", directory.name).lstrip("._-") or "model"
    record = {"node": name, "part": "", "digest": identities.of_path(directory, "checkpoint"), "upstream": {}}
    ended = (directory / "config.json").stat().st_mtime
    return Trained(directory, record, (directory.name,), directory.name, line, ended)


def ancestor(found: Found, record: Mapping[str, Any], step: str) -> Finished | None:
    """The nearest step `step` that something was made from: its data, its tokens."""
    level, seen = list(_upstream(record)), set[str]()
    while level:
        records = [(found.steps[d], read_done(found.steps[d])) for d in level if d in found.steps and d not in seen]
        seen.update(level)
        for path, done in records:
            if done and done["made_from"]["step"] == step:
                return Finished(done["made_from"], str(path))
        level = [d for _, done in records if done for d in _upstream(done["made_from"])]
    return None


def _upstream(record: Mapping[str, Any]) -> Iterator[str]:
    for digests in record["upstream"].values():
        yield from digests


def _generates(path: Path) -> bool:
    """Whether it is a model of text; a reward model is not."""
    names = read_record(path / "config.json").get("architectures") or []
    return not any(str(name).endswith("ForSequenceClassification") for name in names)


def _line(directory: Path) -> str:
    spool = directory / TRACKING / SPOOL
    return owner_of(spool).line if spool.is_file() and spool.stat().st_size else "argosy"
