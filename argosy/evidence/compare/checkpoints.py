"""Checkpoints of training steps with the results of their evaluations; directories that cannot be read are named."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from argosy.core.statistics.metric import Metric, from_records
from argosy.core.store.step_files import read_done
from argosy.evidence.compare.metrics import HEADLINE, Kind, kind_of
from argosy.evidence.compare.test import Side
from argosy.evidence.results.contamination import Seen, seen_of
from argosy.evidence.results.headline import BY_CHARACTER, best_forms, headline, metric_of
from argosy.evidence.results.rows import Answers, Group, Rows, read_rows
from argosy.evidence.results.values import Value, estimate

BENCHMARK, HELDOUT = "bench/", "heldout/bpb/"


@dataclass
class Checkpoint:
    """One export, evaluated or not."""

    key: str
    """`<digest of the training node>/<export>`"""
    digest: str
    stage: str
    name: str
    step: int
    tokens: int
    """seen since pretraining began"""
    final: bool = True
    chat: bool = False
    parent: str | None = None
    """key of the export that it was trained from: of the same stage, or of the stage before"""
    base: str | None = None
    """key of the last export of the stage before"""
    label: str = ""
    """the stage for its last export, else STAGE/EXPORT; with the digest where two would be equal"""
    metrics: dict[str, float] = field(default_factory=dict)
    stderr: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    """anomalies, by task or channel"""
    headline: dict[str, list[str]] = field(default_factory=dict)
    """forms among which a task's headline is chosen, as the evaluation says"""
    forms: dict[str, list[str]] = field(default_factory=dict)
    """forms that an added headline is in, by that headline (argosy.evidence.results.headline)"""
    kinds: dict[str, Metric] = field(default_factory=dict)
    """declarations of its metrics"""
    logged: dict[str, Seen] = field(default_factory=dict)
    """contamination that MLflow knows, by benchmark"""
    evaluations: list[Path] = field(default_factory=list)
    """directories, the one that counts last"""
    notes: list[str] = field(default_factory=list)
    """sentences on results that could not be read"""

    @cached_property
    def rows(self) -> Rows:
        """Its answers and losses item by item; read when they are first needed."""
        return read_rows(self.evaluations, self.notes)

    @cached_property
    def seen(self) -> dict[str, Seen]:
        """Tell by benchmark whether the model has seen it."""
        return self.logged | seen_of(self.rows)

    @property
    def answers(self) -> dict[Group, Answers]:
        return self.rows.answers

    def add(self, directory: Path, outputs: Mapping[str, Any]) -> None:
        """Add the results of an evaluation; they count before those that were added earlier."""
        self.evaluations.append(directory)
        for derived in ("rows", "seen"):
            self.__dict__.pop(derived, None)
        self.chat = bool(outputs["checkpoint"].get("chat"))
        self.metrics |= outputs["metrics"]
        self.stderr |= outputs.get("stderr", {})
        self.counts |= outputs.get("counts", {})
        self.left_out |= outputs.get("left_out", {})
        self.warnings |= outputs.get("warnings", {})
        self.headline |= outputs.get("headline", {})
        self.kinds |= from_records(outputs.get("kinds", ()))

    def add_headline(self, task: str, forms: list[str]) -> None:
        """Add the headline of a benchmark, or of its items in one language, in these forms to the metrics."""
        name = headline_of(task)
        if (side := self.side(name, forms=forms)) is not None:
            self.metrics[name], self.counts[name], self.forms[name] = side.value, side.count, forms
            if math.isfinite(side.stderr):
                self.stderr[name] = side.stderr

    def kind(self, name: str) -> Kind:
        return kind_of(name, self.kinds)

    def side(self, name: str, other: "Checkpoint | None" = None, forms: Sequence[str] = ()) -> Side | None:
        """A metric with the values that it is the mean of; None where it is not known.

        A headline is in `forms`, else in those that it was added with, else in the best of those of `other` too."""
        task = headline_task(name)
        if task is None:
            return self._plain(name, self.rows.values(name)) if name in self.metrics else None
        theirs = other.headline_of(task) if other is not None else self.headline_of(task)
        forms = forms or self.forms.get(name) or best_forms(
            [c.rows for c in (self, other) if c is not None], task, [f for f in self.headline_of(task) if f in theirs])
        if forms and (values := headline(self.rows, task, forms)):
            return side_of(values)
        return self._plain(name) if name in self.metrics else None

    def _plain(self, name: str, values: Mapping[str, Value] | None = None) -> Side:
        return Side(self.metrics[name], self.stderr.get(name, math.nan), values, int(self.counts.get(name) or 0))

    def interval(self, name: str, forms: Sequence[str] = ()) -> tuple[float, float] | None:
        """The interval of 95 % of a metric; None where its error is not known (argosy.evidence.compare.test: Side).

        `forms`: those that a headline is in, as of `side`."""
        side = self._plain(name) if name in self.metrics else None
        if side is None or side.stderr == 0:  # which the rows tell more of
            side = self.side(name, forms=forms)
        return side.interval(self.kind(name).share) if side is not None else None

    def chance(self, name: str) -> float | None:
        """The score of guessing at a metric, as it declares; None where nothing is guessed.

        Of a headline it is the mean of its forms'; of accuracies whose results lack it, it is that of the rows."""
        declared = self.kind(name).chance
        if not isinstance(declared, str):
            return declared
        parts = name.split("/")
        if (found := self.metrics.get("/".join([*parts[:-1], declared]))) is not None:
            return found
        if headline_task(name) is not None:
            forms = self.forms.get(name) or self.headline_of(parts[1])
            known = [c for form in forms if (c := self.chance(metric_of(parts[1], form))) is not None]
            return math.fsum(known) / len(known) if known else None
        return self.rows.chance(parts[1], parts[2]) if parts[-1] in ("acc", BY_CHARACTER) else None

    @property
    def tasks(self) -> list[str]:
        """Tasks whose answers are known item by item."""
        return sorted({task for task, _ in self.answers})

    def variants(self, task: str) -> list[str]:
        """Variants of `task`, the published form first."""
        return self.rows.forms(task)

    def headline_of(self, task: str) -> list[str]:
        """Forms of `task` among which its headline is chosen; all variants, where nothing says which."""
        return self.rows.forms(task, self.headline.get(task, ()))


@dataclass
class Checkpoints:
    """All of them, parents first, and what could not be read (sentences)."""

    every: list[Checkpoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_key = {c.key: c for c in self.every}

    def __getitem__(self, key: str) -> Checkpoint:
        return self._by_key[key]

    def put(self, checkpoint: Checkpoint) -> None:
        """Have one more, after the others."""
        self.every.append(checkpoint)
        self._by_key[checkpoint.key] = checkpoint

    @property
    def evaluated(self) -> list[Checkpoint]:
        """Checkpoints with at least one metric."""
        return [c for c in self.every if c.metrics]

    @property
    def finals(self) -> list[Checkpoint]:
        """The last one of each stage, where it is evaluated."""
        return [c for c in self.evaluated if c.final]

    def add(self, directory: Path, outputs: Mapping[str, Any], digest: str) -> None:
        """Add the results of an evaluation of a checkpoint, which is added too where no step that was read made it.

        `digest`: of the step that made it."""
        about = outputs["checkpoint"]
        key = f"{digest}/{about['name']}"
        if (found := self._by_key.get(key)) is None:
            step, tokens = (int(about.get(name) or 0) for name in ("step", "tokens"))
            found = Checkpoint(key, digest, about.get("stage") or about["name"], about["name"], step, tokens,
                               label=about["name"])
            self.put(found)
        found.add(directory, outputs)

    def line(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """The checkpoints that led to this one, the first one first."""
        found = [checkpoint]
        while (parent := self._by_key.get(found[-1].parent or "")) is not None and parent not in found:
            found.append(parent)
        return found[::-1]


def read_checkpoints(training: Sequence[str | Path], evaluations: Sequence[str | Path]) -> Checkpoints:
    """The exports of `training` steps' directories, with what the `evaluations` found; either may lack some."""
    found = Checkpoints()
    nodes = {}
    for directory in map(Path, training):
        done = read_done(directory)
        if done is None:
            found.notes.append(f"{directory.name} is not done: its checkpoints are not compared.")
        elif done["outputs"].get("exports"):
            nodes[str(done["made_from"]["digest"])] = done
    for digest, done in nodes.items():
        for each in _exports(digest, done, nodes):
            found.put(each)
    for directory in map(Path, evaluations):
        _add_evaluation(directory, found)
    for c in found.every:
        c.seen  # noqa: B018  its rows are read here, so that broken ones are noted
        found.notes += [note for note in c.notes if note not in found.notes]
    _chain([c for c in found.every if c.digest not in nodes])
    _label(found.every)
    for c in found.every:
        if c.final and not c.metrics:
            found.notes.append(f"{c.label} has no evaluation, so it is in no table.")
    return found


def _exports(digest: str, done: dict[str, Any], nodes: dict[str, Any]) -> list[Checkpoint]:
    source = next(iter(done["made_from"]["upstream"].get("checkpoint", [])), "")
    base = f"{source}/{_final_name(nodes[source]['outputs'])}" if source in nodes else None
    last = _final_name(done["outputs"])
    found: list[Checkpoint] = []
    for entry in sorted(done["outputs"]["exports"], key=lambda e: e["step"]):
        parent = found[-1].key if found else base
        found.append(Checkpoint(f"{digest}/{entry['name']}", digest, str(done["made_from"]["node"]), entry["name"],
                                entry["step"], entry["tokens"], entry["name"] == last, parent=parent, base=base))
    return found


def _final_name(outputs: dict[str, Any]) -> str:
    exports = outputs["exports"]
    return str(next((e["name"] for e in exports if e["path"] == outputs.get("final")), exports[-1]["name"]))


def _add_evaluation(directory: Path, found: Checkpoints) -> None:
    done = read_done(directory)
    if done is None:
        found.notes.append(f"The evaluation {directory.name} is not done: what it would say is missing here.")
        return
    outputs = done["outputs"]
    digest = str(next(iter(done["made_from"]["upstream"].get("checkpoint", [])), outputs["checkpoint"]["name"]))
    found.add(directory, outputs, digest)
    if not outputs["metrics"]:
        found.notes.append(f"The evaluation {directory.name} holds no metric.")


def _chain(unknown: Sequence[Checkpoint]) -> None:
    """Exports whose training step was not given: those of one step follow each other, and the last one is final."""
    for digest in dict.fromkeys(c.digest for c in unknown):
        same = sorted((c for c in unknown if c.digest == digest), key=lambda c: c.step)
        for before, after in pairwise(same):
            before.final, after.parent = False, before.key


def _label(checkpoints: Sequence[Checkpoint]) -> None:
    for c in checkpoints:
        c.label = c.stage if c.final else f"{c.stage}/{c.name}"
    twice = {label for label, n in Counter(c.label for c in checkpoints).items() if n > 1}
    for c in checkpoints:
        if c.label in twice:
            c.label = f"{c.label} ({c.digest.removeprefix('directory:')[:6]})"


def kind_among(name: str, checkpoints: Iterable[Checkpoint]) -> Kind:
    """The kind of a metric of several checkpoints: as the last one that declares it does."""
    declared = [c.kinds[name] for c in checkpoints if name in c.kinds]
    return kind_of(name, {name: declared[-1]} if declared else {})


def headline_of(task: str) -> str:
    return f"bench/{task}/{HEADLINE}/acc"


def headline_task(name: str) -> str | None:
    """The benchmark whose headline a metric is; None for another metric."""
    parts = name.split("/")
    return parts[1] if len(parts) == 4 and (parts[0], parts[2], parts[3]) == ("bench", HEADLINE, "acc") else None


def side_of(values: Mapping[str, Value]) -> Side:
    """A mean over items as one side of a test."""
    found = estimate(values)
    return Side(found.value, found.stderr, values, found.n)
