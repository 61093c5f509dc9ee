"""The lineage of a step's directory, read from the store alone, and the training steps with their checkpoints."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError, InputError
from argosy.core.store.files import read_record
from argosy.core.store.provenance import DIGITS, Identities, flat
from argosy.core.store.step_files import NODE, RUN, TRACKING, ended, read_done
from argosy.core.tracking.spool import SPOOL, owner_of
from workflows.graph import definition


@dataclass(frozen=True)
class ExternalFile:
    """A file from outside that a step read; state: `unchanged`, `CHANGED since` or `not there any more`."""

    field: str
    path: str
    identity: str
    state: str


@dataclass(frozen=True)
class Ancestor:
    """A step's directory, what made it, and what that was made from."""

    directory: Path
    made_from: dict[str, Any]
    run: dict[str, Any]
    done: bool
    files: list[ExternalFile] = field(default_factory=list)
    upstream: "dict[str, list[Ancestor | str]]" = field(default_factory=dict)  # str: a digest that is not in the store

    @property
    def name(self) -> str:
        """`node` or `node/part`."""
        return "/".join(filter(None, (self.made_from["node"], self.made_from["part"])))

    def every(self) -> "Iterator[Ancestor]":
        """Yield this and all ancestors that are in the store; one that several were made from as often."""
        yield self
        for found in self.upstream.values():
            for each in found:
                yield from each.every() if isinstance(each, Ancestor) else ()

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield fields of the config that differ from the step's defaults; all where the step is no more."""
        try:
            default = dict(flat(definition(self.made_from["step"]).config().identity()))
        except (ArgosyError, ValueError):
            default = {}
        for key, value in flat(self.made_from["config"]):
            if key not in default or default[key] != value:
                yield key, value


class Lineage:
    """A reader of directories by digest; each is read once, so that what several nodes share is one object."""

    def __init__(self, store: Path) -> None:
        self._directories = dict(step_directories(store))
        self._identities = Identities()
        self._known: dict[Path, Ancestor] = {}

    def of(self, directory: Path) -> Ancestor:
        """Read the ancestor in `directory`. Raises InputError: it is no step's directory."""
        if directory in self._known:
            return self._known[directory]
        finished = read_done(directory)
        made_from = finished["made_from"] if finished else read_record(directory / NODE)
        if not made_from:
            raise InputError(f"{directory} is not a step's directory: it has neither outputs.json nor {NODE}")
        run = read_record(directory / RUN)
        known = self._directories
        upstream = {name: [self.of(known[digest]) if digest in known else digest for digest in digests]
                    for name, digests in made_from["upstream"].items()}
        files = list(self._files(made_from, run.get("config", {})))
        self._known[directory] = Ancestor(directory, made_from, run, finished is not None, files, upstream)
        return self._known[directory]

    def _files(self, made_from: dict[str, Any], config: dict[str, Any]) -> Iterator[ExternalFile]:
        for name, identity in made_from["external"].items():
            value = config.get(name) or []
            paths = [value] if isinstance(value, str) else list(value)
            identities: list[str] = [identity] if isinstance(identity, str) else identity
            for index, known in enumerate(identities):
                path = paths[index] if index < len(paths) else known.partition(":")[0]
                try:
                    state = "unchanged" if self._identities.of(path, "") == known else "CHANGED since"
                except InputError:
                    state = "not there any more"
                yield ExternalFile(name, path, known, state)


def step_directory(path: Path) -> Path:
    """Find the step's directory that `path`, such as a checkpoint's directory, is in or is."""
    for candidate in (path, *path.absolute().parents[:3]):
        if (candidate / NODE).is_file() or read_done(candidate) is not None:
            return candidate
    raise InputError(f"{path} is not inside a step's directory")


ASIDE = ("twin",)  # stages that have seen the test on purpose: no end of a line unless named, and never promoted


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """A finished step with checkpoints, or a model from elsewhere."""

    directory: Path
    record: Mapping[str, Any]
    """The `made_from` of its outputs.json."""
    exports: Mapping[str, str]
    """Paths of its checkpoints below the directory by name, in the order of training."""
    final: str
    """The name of the one that the step calls final."""
    line: str
    ended: float
    """Seconds since the epoch."""

    @property
    def stage(self) -> str:
        return str(self.record["node"])

    @property
    def digest(self) -> str:
        return str(self.record["digest"])

    @property
    def source(self) -> str:
        """The digest of the step whose checkpoint it goes on from; "" for none."""
        return str(next(iter(self.record["upstream"].get("checkpoint", [])), ""))

    def key(self, export: str) -> str:
        return f"{self.digest}/{export}"


def training_step(directory: Path, done: Mapping[str, Any] | None = None) -> TrainingStep | None:
    """The training step in `directory`; None for another step. `done`: its outputs.json, where that was read before."""
    done = done or read_done(directory)
    if done is None or not done["outputs"].get("exports"):
        return None
    entries = sorted(done["outputs"]["exports"], key=lambda entry: int(entry["step"]))
    last = done["outputs"].get("final", entries[-1]["path"])
    final = next((entry["name"] for entry in entries if entry["path"] == last), entries[-1]["name"])
    exports = {entry["name"]: entry["path"] for entry in entries}
    return TrainingStep(directory, done["made_from"], exports, final, line_of(directory), ended(directory))


def line_of(directory: Path) -> str:
    """The model line that a step's directory was made for."""
    spool = directory / TRACKING / SPOOL
    return owner_of(spool).line if spool.is_file() and spool.stat().st_size else "argosy"


def lineage_of(step: TrainingStep, steps: Mapping[str, TrainingStep]) -> list[TrainingStep]:
    """The training steps that `step` goes on from, the nearest first."""
    before: list[TrainingStep] = []
    while (source := steps.get((before or [step])[-1].source)) is not None and source not in (step, *before):
        before.append(source)
    return before


def step_directories(store: Path) -> Iterator[tuple[str, Path]]:
    """Digest and path of each step's directory of a store, by name."""
    for path in sorted(store.iterdir()) if store.is_dir() else ():
        digest = path.name.rpartition("-")[2]
        if len(digest) == DIGITS:
            yield digest, path
