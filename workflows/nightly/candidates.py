"""Candidates of a night: checkpoints of a store's finished training steps, and of other stores that MLflow has; and
references, the checkpoints that new ones are compared with, by name or alias."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.errors import InputError
from argosy.core.store.provenance import Identities
from argosy.core.store.step_files import OUTPUTS, read_done
from argosy.core.tracking.mlflow.registry import Registry, Version
from argosy.core.tracking.mlflow.server import DATABASE, Server, tracking_uri
from argosy.evidence.results.items import in_order
from argosy.model.weights.checkpoint import no_language_model
from workflows.graph import Finished, definitions
from workflows.stored.last_run import checkpoint_directory, export_name, newest_config
from workflows.stored.lineage import TrainingStep, lineage_of, step_directories, step_directory, training_step

# Most of a store's directories, and models that are not new.
EVALUATIONS = ("evaluate-*", "learn-*")  # the latter by hand: a pipeline's are parts of its stage evaluate
NOT_TRAINED = ("evaluate-", "learn-", "regressions-", "judge-", "compare-", "start-")


@dataclass(frozen=True)
class Candidate:
    """One checkpoint of a training step."""

    step: TrainingStep
    export: str

    @property
    def key(self) -> str:
        return self.step.key(self.export)

    @property
    def label(self) -> str:
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
        return sorted({each.line for each in self.training.values()})


def find_candidates(store: Path) -> Candidates:
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


if TYPE_CHECKING:
    from argosy.evidence.gate.check import Verdict
    from argosy.evidence.gate.config import Gate
    from argosy.evidence.gate.subject import Subject


def registry_of(store: Path) -> Registry | None:
    """The registry of the configured server, or of the store's own database; None where there is neither."""
    if not os.environ.get("MLFLOW_TRACKING_URI") and not (store / DATABASE).is_file():
        return None
    return Registry(Server(tracking_uri(store), store))


def reference_for(new: Candidate, candidates: Candidates, alias: Candidate | None) -> Candidate | None:
    """The registry's, for last checkpoints of its stage and of later ones; else the newest earlier one of the line.

    An intermediate checkpoint, and one of a stage before the reference's, would be worse than that by its nature: it
    is compared with its counterpart, which is the checkpoint of its stage and name that an earlier run made, and
    where there is none with the checkpoint that it goes on from."""
    if alias is not None and new.export == new.step.final and alias.key != new.key:
        depth, of_alias = (len(lineage_of(each.step, candidates.training)) for each in (new, alias))
        if depth >= of_alias:
            return alias
    is_final = new.export == new.step.final
    earlier = [each for each in candidates.training.values() if each.line == new.step.line
               and each.stage == new.step.stage and each is not new.step and _age(each) < _age(new.step)
               and (is_final or new.export in each.exports)]  # fmt: skip
    if earlier:
        newest = max(earlier, key=_age)
        return Candidate(newest, newest.final if is_final else new.export)
    exports = list(new.step.exports)
    if place := exports.index(new.export):
        return Candidate(new.step, exports[place - 1])
    source = candidates.training.get(new.step.source)
    return Candidate(source, source.final) if source else None


def earlier_of(new: Candidate, candidates: Candidates) -> Iterator[Candidate]:
    """Yield the earlier checkpoints of a run, also of the phases of pretraining before its own; tuning costs some of
    what they reached, so a tuned model has those of its own stage alone."""
    made_by = definitions().get(str(new.step.record.get("step")))
    phases = lineage_of(new.step, candidates.training) if made_by and not made_by.methods else []
    yield from (Candidate(phase, export) for phase in reversed(phases) for export in phase.exports)
    yield from (Candidate(new.step, export) for export in takewhile(lambda name: name != new.export, new.step.exports))


def _age(step: TrainingStep) -> tuple[float, str]:
    return step.ended, step.digest


def by_key(key: str, candidates: Candidates) -> Candidate | None:
    """The checkpoint `<digest>/<export>`."""
    digest, _, export = key.rpartition("/")
    step = candidates.training.get(digest)
    return Candidate(step, export) if step is not None and export in step.exports else None


def by_name(name: str, candidates: Candidates, store: Path, identities: Identities) -> list[Candidate]:
    """Checkpoints by `<digest>/<export>`, or by a name as of every command (`stored.last_run`).

    A training step's directory, or a stage, is all of its checkpoints; `STAGE/final` the last one. Raises
    InputError: there is no such checkpoint; names the nearest."""
    if candidate := by_key(name, candidates):
        return [candidate]
    path = checkpoint_directory(store, name).absolute()
    try:
        directory = step_directory(path)
    except InputError:
        model = from_elsewhere(path, candidates.lines[0] if candidates.lines else "argosy", identities)
        return [Candidate(candidates.training.setdefault(model.digest, model), model.final)]
    step = candidates.add(generating_step(directory, candidates.notes))
    if step is None:
        raise InputError(f"{path} has no checkpoint that generates text, or is not done")
    return [Candidate(step, each) for each in (step.exports if path == directory else [export_name(step, path)])]


def last_by_name(name: str, candidates: Candidates, store: Path) -> Candidate:
    """The checkpoint of that name; of a stage or a step's directory its final one. Raises InputError: there is no such
    checkpoint; names the nearest."""
    several = by_name(name, candidates, store, Identities())
    return next((each for each in several if each.export == each.step.final), several[-1])


def reference_of(name: str, alias: str, model: str, candidates: Candidates, store: Path,
                 registry: Registry | None) -> Candidate | str | None:
    """The checkpoint that `name` (an alias or a checkpoint) names; without it, the one of `alias`, None for nothing.

    A checkpoint that cannot be seen from here is its key alone. Raises InputError: `name` is neither; Unavailable:
    MLflow does not answer."""
    version = registry.at(model, name or alias) if registry is not None else None
    if version is not None:
        return checkpoint_of(version, name or alias, candidates)
    if not name:
        return None
    try:
        return last_by_name(name, candidates, store)
    except InputError as error:
        raise InputError(f"reference: {name!r} is no alias of the registered model {model!r}, and {error}") from None


def checkpoint_of(version: Version, name: str, candidates: Candidates) -> Candidate | str:
    """The checkpoint of a version of the registry; its key where it cannot be seen from here. `name`: of the alias."""
    if by_key(version.checkpoint, candidates) is None:
        add_elsewhere(candidates, [(f"{name} ({version.checkpoint})", version.path)])
    return by_key(version.checkpoint, candidates) or version.checkpoint


def gate_for(file: Path | None, store: Path, line: str) -> "Gate | None":
    """The gate of `file`, else the `gate` section of the line's newest config; None where there is neither. Raises
    InputError: the file or a rule in it is wrong."""
    from argosy.evidence.gate.config import read_gate
    from workflows.lifecycle import LifecycleConfig

    if file is not None:
        return read_gate(file)
    config = newest_config(store, line, LifecycleConfig)
    return config.gate if config is not None else None


def hold(gate: "Gate", new: Candidate, reference: Candidate | str | None, store: Path) -> "Verdict":
    """Hold a checkpoint against the gate, by the evaluations that are done.

    `reference`: what it must not be worse than; a name alone, where it cannot be seen from here; None: nothing."""
    from argosy.evidence.gate.check import check
    from argosy.evidence.gate.subject import nobody

    second = nobody(reference, reference) if isinstance(reference, str) else reference and _subject(reference, store)
    return check(gate, _subject(new, store), second or None)


def evaluations_of(candidate: Candidate, store: Path) -> list[Path]:
    """Directories of a checkpoint's finished evaluations, in its own store and in this one; what counts comes last."""
    stores = dict.fromkeys([candidate.step.directory.absolute().parent, store.absolute()])
    done = [(path, record) for each in stores for name in EVALUATIONS for path in each.glob(name)
            if (record := read_done(path))]
    own = [(path, record) for path, record in done
           if record["made_from"]["upstream"].get("checkpoint") == [candidate.step.digest]
           and record["outputs"]["checkpoint"]["name"] == candidate.export]
    return [path for path, _ in in_order(own)]


def _subject(candidate: Candidate, store: Path) -> "Subject":
    from argosy.evidence.gate.subject import nobody, read_subject

    evaluations = evaluations_of(candidate, store)
    if not evaluations:
        note = f"{candidate.label} is not evaluated: argosy nightly --checkpoint {candidate.step.directory.name}"
        return nobody(candidate.label, candidate.key, note)
    return read_subject(evaluations, candidate.label)
