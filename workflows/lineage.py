"""From a step's directory back to all that it was made from, read from the store alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError, InputError
from argosy.identity import Identities
from argosy.provenance import DIGITS, flat
from argosy.step_files import NODE, RUN, read_done
from argosy.storage import read_record
from workflows.node import definition


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
    upstream: dict[str, list[Ancestor | str]] = field(default_factory=dict)  # str: a digest that is not in the store

    @property
    def name(self) -> str:
        """`node` or `node/part`."""
        return "/".join(filter(None, (self.made_from["node"], self.made_from["part"])))

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Fields of the config that differ from the step's defaults; all where the step is no more."""
        try:
            default = dict(flat(definition(self.made_from["step"]).config().identity()))
        except (ArgosyError, ValueError):
            default = {}
        for key, value in flat(self.made_from["config"]):
            if key not in default or default[key] != value:
                yield key, value


class Lineage:
    """Looks directories up by digest; each is read once, so that what several nodes share is one object."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._identities = Identities()
        self._known: dict[Path, Ancestor] = {}

    def of(self, directory: Path) -> Ancestor:
        """The ancestor in `directory`.

        Raises:
            InputError: it is no step's directory.
        """
        if directory not in self._known:
            self._known[directory] = self._read(directory)
        return self._known[directory]

    def _read(self, directory: Path) -> Ancestor:
        finished = read_done(directory)
        made_from = finished["made_from"] if finished else read_record(directory / NODE)
        if not made_from:
            raise InputError(f"{directory} is not a step's directory: it has neither outputs.json nor {NODE}")
        run = read_record(directory / RUN)
        upstream = {name: [self._find(digest) for digest in digests] for name, digests in made_from["upstream"].items()}
        files = list(self._files(made_from, run.get("config", {})))
        return Ancestor(directory, made_from, run, finished is not None, files, upstream)

    def _find(self, digest: str) -> Ancestor | str:
        return self.of(self._directories[digest]) if digest in self._directories else digest

    @cached_property
    def _directories(self) -> dict[str, Path]:
        found = {}
        for path in sorted(self._store.iterdir()) if self._store.is_dir() else ():
            digest = path.name.rpartition("-")[2]
            if len(digest) == DIGITS:
                found[digest] = path
        return found

    def _files(self, made_from: dict[str, Any], config: dict[str, Any]) -> Iterator[ExternalFile]:
        for name, identity in made_from["external"].items():
            value = config.get(name) or []
            paths = [value] if isinstance(value, str) else list(value)
            identities: list[str] = [identity] if isinstance(identity, str) else identity
            for index, known in enumerate(identities):
                path = paths[index] if index < len(paths) else known.partition(":")[0]
                yield ExternalFile(name, path, known, self._state(path, known))

    def _state(self, path: str, known: str) -> str:
        try:
            return "unchanged" if self._identities.of_path(Path(path), "") == known else "CHANGED since"
        except InputError:
            return "not there any more"


def step_directory(path: Path) -> Path:
    """The step's directory that `path`, such as a checkpoint's directory, is in or is."""
    for candidate in (path, *path.absolute().parents[:3]):
        if (candidate / NODE).is_file() or read_done(candidate) is not None:
            return candidate
    raise InputError(f"{path} is not inside a step's directory")
