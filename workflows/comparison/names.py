"""From what was typed to what is compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from argosy.comparison.entry import Entry
from argosy.config_explain import nearest
from argosy.contamination.logged import seen_in, without_contamination
from argosy.errors import InputError, StepError
from argosy.report.checkpoints import Checkpoint
from argosy.tracking.result import Result
from argosy.tracking.results import Results
from argosy.tracking.server import Server, tracking_uri
from argosy.tracking.shipper import Unavailable
from workflows.comparison.stored import ASIDE
from workflows.comparison.stores import Stores

_RUN = re.compile(r"^(?:runs:/)?([0-9a-f]{32})$")
_MODEL = re.compile(r"^models:/(m-[0-9a-f]+)$")
_VERSION = re.compile(r"^models:/(?P<name>[^@/]+(?:/[^@/]+)*?)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+))$")
LINE = "line:"
Answer = TypeVar("Answer")


class Names:
    """What names mean in one store and on one MLflow."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._stores = Stores(store)
        self.server = Server(tracking_uri(store), store)
        self.results = Results(self.server)
        self._found: dict[str, Result] = {}  # of checkpoints whose numbers are MLflow's, by key

    def entries(self, names: Sequence[str]) -> list[Entry]:
        """One for each name; labels are unique.

        Raises:
            InputError: a name is none, or is not evaluated; says what there is.
            StepError: MLflow does not answer.
        """
        found = [self._entry(name) for name in names]
        twice = {label for label, n in Counter(e.label for e in found).items() if n > 1}
        for number, entry in enumerate(found):
            if entry.label in twice:
                entry.label = f"{entry.label} ({chr(65 + number) if number < 26 else number + 1})"
        return found

    def complete(self, entries: Sequence[Entry]) -> None:
        """Add to what comes from MLflow the standard errors of the chosen checkpoints, where they were logged."""
        for entry in entries:
            result = self._found.get(entry.chosen.key)
            if result is not None and result.runs:
                found = self._asked(partial(self.results.errors_of, result))
                entry.chosen.stderr, entry.chosen.counts = found["stderr"], found["counts"]
                entry.model, entry.link = result.model, result.link

    def linked(self, entries: Sequence[Entry]) -> None:
        """Find the LoggedModels of checkpoints of the store, for links to them; what MLflow lacks has none."""
        for entry in entries:
            if entry.source == "store":
                known = self._asked(partial(self.results.by_key, self.line_of(entry), entry.chosen.key))
                entry.model, entry.link = (known.model, known.link) if known else ("", "")

    def line_of(self, entry: Entry) -> str:
        """The model line of an entry, which is MLflow's experiment."""
        result = self._found.get(entry.chosen.key)
        return self._stores.line_of(entry.chosen.digest) or (result.line if result else "argosy")

    def _entry(self, name: str) -> Entry:
        if not name.strip():
            raise InputError("an empty name: give a checkpoint, such as sft, pretrain/p050, line:NAME or runs:/ID")
        if run := _RUN.match(name):
            return self._from_mlflow(name, lambda: self.results.of_run(run[1]))
        if known := _MODEL.match(name):
            return self._from_mlflow(name, lambda: [self.results.of_model(known[1])])
        if name.startswith("models:/"):
            return self._version(name)
        if name.startswith("@"):
            model = _only(self._stores.own.lines, name)
            return self._from_mlflow(name, lambda: [self.results.of_alias(model, name[1:])])
        if name.startswith(LINE):
            line = name.removeprefix(LINE)
            return self._stores.line(name, line) or self._line_in_mlflow(name, line)
        return self._stores.checkpoint(name)

    def _version(self, name: str) -> Entry:
        found = _VERSION.match(name)
        if not found:
            raise InputError(f"{name} is no model: allowed: models:/NAME@ALIAS, models:/NAME/VERSION, models:/m-ID")
        model, alias = found["name"], found["alias"] or found["version"]
        return self._from_mlflow(name, lambda: [self.results.of_alias(model, alias)])

    def _line_in_mlflow(self, name: str, line: str) -> Entry:
        here = self._asked(lambda: self.results.of_line(line)) if line in self._asked(self.results.experiments) else []
        here = [r for r in here if r.stage not in ASIDE]
        if not here:
            known = sorted({*self._stores.own.lines, *self._asked(self.results.experiments)} - {"Default"})
            near = nearest(line, known) or known
            raise InputError(f"{name}: no model line of that name has evaluated checkpoints in {self._store} or in "
                             f"MLflow at {self.results.where}; {'nearest' if near != known else 'there are'}: "
                             f"{', '.join(near) or 'none'}")
        return self._entry_of(name, here, line)

    def _from_mlflow(self, name: str, ask: Callable[[], list[Result]]) -> Entry:
        found = self._asked(ask)
        return self._entry_of(name, found, name if name.startswith(("models:/", "@")) else found[-1].name)

    def _entry_of(self, name: str, found: list[Result], label: str) -> Entry:
        """From the store where it has the checkpoint, with its answers item by item; else MLflow's numbers."""
        last = found[-1]
        stored = self._stores.having(last)
        if stored is not None:
            entry = self._stores.entry(name, stored, last.key)
            if len(found) > 1:
                keys = {r.key for r in found}
                entry.line = [c for c in stored.checkpoints.every if c.key in keys and c.metrics] or entry.line
        elif not last.metrics:
            raise InputError(f"{name} ({last.name}) has no metrics in MLflow at {self.results.where}: it is not "
                             "evaluated yet, or what was found is not sent")
        else:
            line = [_checkpoint_of(r) for r in found if r.metrics]
            entry = Entry(name, label, line, line[-1], "MLflow")
            self._found |= dict(zip((c.key for c in line), (r for r in found if r.metrics), strict=True))
        entry.label, entry.model, entry.link = label.removeprefix("models:/"), last.model, last.link
        return entry

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except Unavailable as error:
            raise StepError(f"MLflow at {self.results.where} does not answer: {error}; start it, or name another one "
                            "by MLFLOW_TRACKING_URI") from None


def _checkpoint_of(r: Result) -> Checkpoint:
    place = f"{r.tokens} tokens" if r.tokens else f"step {r.step}"
    label = r.name if r.model else f"{r.name}, {place}"
    key = r.key or f"{r.model or r.name}@{r.tokens}/{r.step}"
    return Checkpoint(key, r.key.rpartition("/")[0], r.stage or r.name, r.name, r.step, r.tokens, label=label,
                      metrics=without_contamination(r.metrics), seen=seen_in(r.metrics))


def _only(lines: Sequence[str], name: str) -> str:
    if len(lines) != 1:
        raise InputError(f"{name}: the store has {len(lines)} model lines ({', '.join(lines) or 'none'}): name one, as "
                         f"models:/NAME{name}")
    return lines[0]
