"""Names of checkpoints on a command line: stages, directories, model lines, MLflow's runs, models and aliases."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from argosy.core.config.explain import nearest
from argosy.core.errors import InputError, StepError
from argosy.core.statistics.metric import from_records
from argosy.core.store.provenance import Identities
from argosy.core.store.step_files import OUTPUTS, read_done
from argosy.core.tracking.mlflow.read import Result, Results
from argosy.core.tracking.mlflow.server import Server, tracking_uri
from argosy.core.tracking.ship import Unavailable
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import Entry
from argosy.evidence.results.contamination import PREFIX, seen_in
from argosy.model.weights.checkpoint import no_language_model
from evals.exchange.imported import MARK, key_of
from workflows.stored.last_run import checkpoint_directory, export_name, line_of_model, unfinished
from workflows.stored.lineage import ASIDE, step_directory, training_step
from workflows.stored.store import Stored

_RUN = re.compile(r"^(?:runs:/)?([0-9a-f]{32})$")
_MODEL = re.compile(r"^models:/(m-[0-9a-f]+)$")
_VERSION = re.compile(r"^models:/(?P<name>[^@/]+(?:/[^@/]+)*?)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+))$")
LINE = "line:"
Answer = TypeVar("Answer")


class Names:
    """Meaning of names in one store, in others that checkpoints lie in, and on one MLflow."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._stores: dict[Path, Stored] = {}
        self.server = Server(tracking_uri(store), store)
        self.results = Results(self.server)
        self._found: dict[str, Result] = {}  # of checkpoints whose numbers are MLflow's, by key

    def entries(self, names: Sequence[str]) -> list[Entry]:
        """One for each name; labels are unique. Raises InputError: a name is none, or is not evaluated; says what there
        is; StepError: MLflow is silent."""
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
                entry.chosen.kinds = from_records(found["kinds"])
                entry.chosen.metrics = found["metrics"] | entry.chosen.metrics  # such as the score of guessing
                entry.model, entry.link = result.model, result.link

    def linked(self, entries: Sequence[Entry]) -> None:
        """Find the LoggedModels of checkpoints of the store, for links to them; what MLflow lacks has none."""
        for entry in entries:
            if entry.source == "store":
                known = self._asked(partial(self.results.by_key, self.line_of(entry), entry.chosen.key))
                entry.model, entry.link = (known.model, known.link) if known else ("", "")

    def line_of(self, entry: Entry) -> str:
        """The model line of an entry, which is MLflow's experiment."""
        known = (stored.trained.get(entry.chosen.digest) for stored in self._stores.values())
        if trained := next(filter(None, known), None):
            return trained.line
        result = self._found.get(entry.chosen.key)
        return (result.line if result else "") or line_of_model(self._store, Path(entry.name))

    def _stored(self, store: Path) -> Stored:
        here = store.absolute()
        if here not in self._stores:  # another store's checkpoints may be evaluated in the one that was named
            self._stores[here] = Stored(store, () if here == self._store.absolute() else (self._store,))
        return self._stores[here]

    def _entry(self, name: str) -> Entry:
        if not name.strip():
            raise InputError("an empty name: give a checkpoint, such as sft, pretrain/p050, line:NAME or runs:/ID")
        if run := _RUN.match(name):
            return self._from_mlflow(name, lambda: self.results.of_run(run[1]))
        if known := _MODEL.match(name):
            return self._from_mlflow(name, lambda: [self.results.of_model(known[1])])
        if name.startswith("models:/"):
            if not (found := _VERSION.match(name)):
                raise InputError(f"{name} is no model: allowed: models:/NAME@ALIAS, models:/NAME/VERSION, models:/m-ID")
            model, alias = found["name"], found["alias"] or found["version"]
            return self._from_mlflow(name, lambda: [self.results.of_alias(model, alias)])
        if name.startswith("@"):
            lines = self._stored(self._store).lines
            if len(lines) != 1:
                raise InputError(f"{name}: the store has {len(lines)} model lines ({', '.join(lines) or 'none'}): name "
                                 f"one, as models:/NAME{name}")
            return self._from_mlflow(name, lambda: [self.results.of_alias(lines[0], name[1:])])
        if name.startswith(MARK):
            return self._imported(name)
        if name.startswith(LINE):
            line = name.removeprefix(LINE)
            return self._line_here(name, line) or self._line_in_mlflow(name, line)
        return self._checkpoint(name)

    def _checkpoint(self, name: str) -> Entry:
        """A stage (its last checkpoint), STAGE/EXPORT, or a directory. Raises InputError: it is none, or is not
        evaluated."""
        path = checkpoint_directory(self._store, name)
        try:
            step = step_directory(path)
        except InputError:
            if not (path / "config.json").is_file():
                raise
            return self._elsewhere(name, path)
        trained = training_step(step)
        if trained is None:
            raise InputError(f"{name} ({step}) makes no checkpoints; name a training stage, such as pretrain or sft"
                             if read_done(step) else unfinished(self._store, name, step))
        export = export_name(trained, path)
        place = step / trained.exports[export]
        _check_compares(name, place, f"; what it was measured by is in {step / OUTPUTS}")
        stored, key = self._stored(step.parent), trained.key(export)
        if (c := stored.by_key(key)) is None or not c.metrics:
            raise InputError(self._to_evaluate(f"{name} ({place})", place))
        return _evaluated(name, stored, c)

    def _imported(self, name: str) -> Entry:
        """A model whose results were imported from another harness, under a name of its own."""
        stored = self._stored(self._store)
        if (found := stored.by_key(key_of(name.removeprefix(MARK)))) is None:
            known = sorted(c.digest for c in stored.checkpoints.every if c.digest.startswith(MARK))
            raise InputError(f"{name}: nothing of that name was imported into {self._store} (there are: "
                             f"{', '.join(known) or 'none'}); 'argosy results import FILE --name NAME' does it")
        return _evaluated(name, stored, found)

    def _elsewhere(self, name: str, path: Path) -> Entry:
        """A model that no step made: known by its bytes."""
        _check_compares(name, path)
        digest, stored = Identities().of_path(path, "checkpoint"), self._stored(self._store)
        found = next((c for c in stored.checkpoints.every if c.digest == digest), None)
        if found is None:
            raise InputError(self._to_evaluate(f"{name}, a model that no step made,", path))
        return _evaluated(name, stored, found)

    def _to_evaluate(self, what: str, path: Path) -> str:
        return (f"{what} is not evaluated in {self._store} yet: run 'argosy evaluate {path} --store {self._store}', "
                "with the suites of what it is compared to")

    def _line_here(self, name: str, line: str) -> Entry | None:
        """The end of a model line that was trained longest, and what led to it; None where the store has no such."""
        stored = self._stored(self._store)
        ends = stored.ends(line)
        if not ends:
            return None
        c = stored.last(ends[0])
        entry = Entry(name, line, stored.history(c), c)
        others = sorted({t.stage for t in ends[1:]} - {ends[0].stage})
        if others:
            entry.notes.append(f"{name} is {c.label}; other ends of the line are named by their stage: "
                               f"{', '.join(others)}.")
        return entry

    def _line_in_mlflow(self, name: str, line: str) -> Entry:
        here = self._asked(lambda: self.results.of_line(line)) if line in self._asked(self.results.experiments) else []
        here = [r for r in here if r.stage not in ASIDE]
        if not here:
            known = sorted({*self._stored(self._store).lines, *self._asked(self.results.experiments)} - {"Default"})
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
        if here := self._having(last):
            stored, c = here
            entry = _evaluated(name, stored, c)
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

    def _having(self, result: Result) -> tuple[Stored, Checkpoint] | None:
        """The store that has the checkpoint evaluated: the one it lies in, else the one that was named."""
        stores = [self._store]
        if result.path and Path(result.path).is_dir():
            with suppress(InputError):
                stores.insert(0, step_directory(Path(result.path)).parent)
        evaluated = ((stored, stored.by_key(result.key)) for stored in map(self._stored, stores if result.key else ()))
        return next(((stored, c) for stored, c in evaluated if c is not None and c.metrics), None)

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except Unavailable as error:
            raise StepError(f"MLflow at {self.results.where} does not answer: {error}; start it, or name another one "
                            "by MLFLOW_TRACKING_URI") from None


def _check_compares(name: str, path: Path, more: str = "") -> None:
    """Refuse a reward model, which can be evaluated no more than it can be compared."""
    if wordless := no_language_model(path):
        raise InputError(f"{name} is {wordless}: it predicts no tokens, so it is not compared as a language model is; "
                         f"name a language model{more}")


def _evaluated(name: str, stored: Stored, c: Checkpoint) -> Entry:
    """An evaluated checkpoint of a store, with what led to it."""
    label = name if name in (c.stage, f"{c.stage}/{c.name}", f"{c.stage}/final") else c.label
    return Entry(name, label, stored.history(c), c)


def _checkpoint_of(r: Result) -> Checkpoint:
    place = f"{r.tokens} tokens" if r.tokens else f"step {r.step}"
    label = r.name if r.model else f"{r.name}, {place}"
    key = r.key or f"{r.model or r.name}@{r.tokens}/{r.step}"
    return Checkpoint(key, r.key.rpartition("/")[0], r.stage or r.name, r.name, r.step, r.tokens, label=label,
                      metrics={name: value for name, value in r.metrics.items() if not name.startswith(PREFIX)},
                      logged=seen_in(r.metrics))
