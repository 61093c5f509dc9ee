"""Candidates of a night: checkpoints of a store's finished training steps, and of other stores that MLflow has; and
their cells of checkpoint x suite, the nodes that the lifecycle would make, in the same directories."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.store.provenance import IDENTITIES, Identities
from argosy.core.store.step_files import OUTPUTS, read_done
from argosy.model.weights.checkpoint import no_language_model
from steps.evaluate import EvaluateConfig
from workflows.evaluation import Evaluation, evaluations
from workflows.graph import FINAL, Finished, Graph, Node
from workflows.lifecycle import LifecycleConfig
from workflows.plan import PlannedNode, Store, planned
from workflows.stages import Stages
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


@dataclass(frozen=True)
class Cell:
    """A checkpoint (its key) with one suite."""

    checkpoint: str
    suite: str
    node: PlannedNode


class Cells:
    """Makes cells of one store.

    Args:
        suites: instead of those of the config: `all` checkpoints of a step or its `final` one, by suite."""

    def __init__(self, candidates: Candidates, store: Path, suites: Mapping[str, str] | None = None) -> None:
        self._candidates, self._store, self._suites = candidates, store, suites
        self.identities = Identities(store / IDENTITIES if store.is_dir() else None)
        self._states = Store(str(store))
        self._made: dict[tuple[str, str, str], list[Cell]] = {}

    def of(
        self, candidate: Candidate, config: LifecycleConfig, *, items_of: TrainingStep | None = None
    ) -> list[Cell]:
        """The cells of a checkpoint.

        `config`: of the model line: suites, their settings, the seed, resources. `items_of`: another step, whose
        data the items come from: a reference answers the items of the new checkpoint, through its own tokenizer."""
        step = candidate.step
        data = ancestor(self._candidates, (items_of or step).record, "data")
        tokens = ancestor(self._candidates, step.record, "tokenize")
        if not step.record["upstream"] and items_of:  # a model from elsewhere has none of its own
            tokens = ancestor(self._candidates, items_of.record, "tokenize")
        key = (step.digest, str(data and data.record["digest"]), str(tokens and tokens.record["digest"]))
        if key not in self._made:
            self._made[key] = list(self._make(step, config, data, tokens))
        return [cell for cell in self._made[key] if cell.checkpoint == candidate.key]

    def _make(
        self, step: TrainingStep, config: LifecycleConfig, data: Finished | None, tokens: Finished | None
    ) -> Iterator[Cell]:
        exports = tuple(FINAL if name == step.final else name for name in step.exports)
        checkpoint = Node(step.stage, "", Config(), finished=Finished(step.record, str(step.directory), exports))
        inputs = {
            name: Node(name, "", Config(), finished=each)
            for name, each in (("data", data), ("tokens", tokens))
            if each is not None
        }
        stages = Stages(config.seed, config.resources, config.known())
        nodes = evaluations(stages, self._evaluation(config), [checkpoint], **inputs)
        graph = Graph([checkpoint, *inputs.values(), *nodes], self.identities)
        for node in nodes:
            assert isinstance(node.config, EvaluateConfig)
            export = step.final if node.config.export == FINAL else node.config.export
            made = planned(graph, node, str(self._store), self._states).model_copy(update={"upstream": ()})
            yield Cell(step.key(export), node.config.suite, made)

    def _evaluation(self, config: LifecycleConfig) -> Evaluation:
        if self._suites is None:
            return config.evaluate
        own = config.evaluate.suites
        chosen = {name: own.get(name, which) for name, which in self._suites.items()}
        # Not model_copy: what was set explicitly is what a digest is made of, defaults follow the run's seed.
        set_ = {name: getattr(config.evaluate, name) for name in config.evaluate.model_fields_set}
        return Evaluation.model_validate({**set_, "suites": chosen})
