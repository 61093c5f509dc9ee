"""Checkpoints and lines of stores by name, with what evaluation says of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from argosy.comparison.entry import Entry
from argosy.errors import InputError
from argosy.evaluation.checkpoint import no_language_model
from argosy.identity import Identities
from argosy.step_files import OUTPUTS, read_done
from argosy.tracking.result import Result
from workflows.cli.checkpoints import checkpoint_directory, export_name
from workflows.cli.unfinished import unfinished
from workflows.comparison.stored import Stored
from workflows.lineage import step_directory


class Stores:
    """The store that was named, and others that checkpoints lie in."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._stores: dict[Path, Stored] = {}

    @property
    def own(self) -> Stored:
        """The one that was named."""
        return self.of(self._store)

    def of(self, store: Path) -> Stored:
        """A store; read once."""
        return self._stores.setdefault(store.absolute(), Stored(store))

    def line_of(self, digest: str) -> str:
        """The model line of a training step; "" where no store knows it."""
        known = (stored.trained.get(digest) for stored in self._stores.values())
        return next((trained.line for trained in known if trained is not None), "")

    def checkpoint(self, name: str) -> Entry:
        """A stage (its last checkpoint), STAGE/EXPORT, or a directory.

        Raises:
            InputError: it is none, or is not evaluated.
        """
        path = checkpoint_directory(self._store, name)
        if not path.exists():
            raise InputError(unfinished(self._store, name, path))
        try:
            step = step_directory(path)
        except InputError:
            if not (path / "config.json").is_file():
                raise
            return self._elsewhere(name, path)
        done = read_done(step)
        if done is None:
            raise InputError(unfinished(self._store, name, step))
        if not done["outputs"].get("exports"):
            raise InputError(f"{name} ({step}) makes no checkpoints; name a training stage, such as pretrain or sft")
        export = export_name(done["outputs"], step, path)
        inner = next(each["path"] for each in done["outputs"]["exports"] if each["name"] == export)
        _check_compares(name, step / inner, f"; what it was measured by is in {step / OUTPUTS}")
        return self.entry(name, self.of(step.parent), f"{done['made_from']['digest']}/{export}")

    def _elsewhere(self, name: str, path: Path) -> Entry:
        """A model that no step made: known by its bytes."""
        _check_compares(name, path)
        digest = Identities().of_path(path, "checkpoint")
        stored = self.own
        found = next((c for c in stored.checkpoints.every if c.digest == digest), None)
        if found is None:
            raise InputError(f"{name} is a model that is not evaluated in {self._store} yet: run "
                             f"'argosy evaluate {path} --store {self._store}' first")
        return self.entry(name, stored, found.key)

    def entry(self, name: str, stored: Stored, key: str) -> Entry:
        """The checkpoint `<digest>/<export>` of a store, with what led to it."""
        c = stored.by_key(key)
        if c is None or not c.metrics:
            where = f"{name} ({stored.store}, checkpoint {key})"
            raise InputError(f"{where} is not evaluated yet; 'argosy status' shows how far the last run is, and "
                             "'argosy run' with its options goes on")
        label = name if name in (c.stage, f"{c.stage}/{c.name}", f"{c.stage}/final") else c.label
        return Entry(name, label, stored.history(c), c)

    def line(self, name: str, line: str) -> Entry | None:
        """The end of a model line that was trained longest, and what led to it; None where the store has no such."""
        ends = self.own.ends(line)
        if not ends:
            return None
        c = self.own.last(ends[0])
        entry = Entry(name, line, self.own.history(c), c)
        others = sorted({t.stage for t in ends[1:]} - {ends[0].stage})
        if others:
            entry.notes.append(f"{name} is {c.label}; other ends of the line are named by their stage: "
                               f"{', '.join(others)}.")
        return entry

    def having(self, result: Result) -> Stored | None:
        """The store that has the checkpoint evaluated: the one that was named, else the one it lies in."""
        stores = [self._store]
        if result.path and Path(result.path).is_dir():
            with suppress(InputError):
                stores.append(step_directory(Path(result.path)).parent)
        for each in map(self.of, stores if result.key else ()):
            if (c := each.by_key(result.key)) is not None and c.metrics:
                return each
        return None


def _check_compares(name: str, path: Path, more: str = "") -> None:
    """Refuse a reward model, which can be evaluated no more than it can be compared."""
    if wordless := no_language_model(path):
        raise InputError(f"{name} is {wordless}: it predicts no tokens, so it is not compared as a language model is; "
                         f"name a language model{more}")
