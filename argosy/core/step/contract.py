"""The contract of a step: a frozen config, a function `run(config, context) -> outputs`, a one-line main.

A step reads only what its config names and writes only below `context.out`. `outputs.json`, written last
and atomically, means done; it holds nothing that differs between two runs of the same config (times,
hosts and the MLflow run are in `run.json` beside it), so a laptop's and a cluster's are equal."""

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.lazy import torch
from argosy.core.statistics.metric import Metric
from argosy.core.step.machine import device_kind
from argosy.core.store.files import read_record, write_json
from argosy.core.tracking.tracker import Tracker

_INTERVAL_S = 0.5  # at most so often, so that a fast loop may report every item
_CHECK_S = 60.0
_SAY_S = 60.0
_TIMED, _LATE = 3, 10  # steps before one may count as late, and times the slowest of the last
B = TypeVar("B", bound=Sized)


class Part:
    """Work of a step beside its main count, such as a held-out evaluation, and how far that is.

    `write` writes progress.json; with True at once."""

    def __init__(self, name: str, write: Callable[[bool], None]) -> None:
        self._name, self._write = name, write
        self._done = self._total = 0.0
        self._unit, self._began = "", time.time()
        self._since = self._said = time.monotonic()

    def record(self) -> dict[str, Any]:
        """Return the part as it stands in progress.json; a total of 0: nothing of it is counted."""
        rate = self._done / max(time.monotonic() - self._since, 1e-9)
        return {"name": self._name, "done": self._done, "total": self._total, "unit": self._unit, "rate": rate,
                "began": self._began}

    def count(self, batches: Iterable[B], total: int, unit: str) -> Iterator[B]:
        """Yield batches, each counted when the next is requested; a count inside a count is a finer one of the same."""
        outermost = not self._total
        if outermost:
            self._done, self._total, self._unit, self._since = 0.0, total, unit, time.monotonic()
            self._write(True)
        done = self._done
        for batch in batches:
            yield batch
            done += len(batch)
            self._done = max(self._done, done)
            self._write(False)
            if time.monotonic() - self._said >= _SAY_S:
                self._said = time.monotonic()
                print(f"{self._name}: {self._done:,.0f} of {self._total:,.0f} {self._unit}", flush=True)
        if outermost:
            self._total = 0.0


_PART: ContextVar[Part | None] = ContextVar("part", default=None)


def counted(batches: Iterable[B], total: int, unit: str) -> Iterator[B]:
    """Yield batches of `total` units in all, counted in the part of the step that is at work, if one is."""
    part = _PART.get()
    return part.count(batches, total, unit) if part else iter(batches)


class Watched:
    """Sections of a process's work, timed by name: one that takes far longer than those before it hangs.

    `with watched():` is around a training step, `with watched(name):` around what is done between some of them.
    `least`, `between`: seconds that the one, and the other, may take in any case."""

    def __init__(self, least: float = float("inf"), between: float = float("inf")) -> None:
        self._least, self._between = least, between
        self._took: dict[str, deque[float]] = {}
        self._open: list[tuple[str, float]] = []  # a section may have others in it

    @contextlib.contextmanager
    def __call__(self, name: str = "") -> Iterator[None]:
        section = name, time.monotonic()
        self._open.append(section)
        try:
            yield
        finally:
            self._open.remove(section)
            self._took.setdefault(name, deque(maxlen=20)).append(time.monotonic() - section[1])

    def late(self) -> str:
        """Say that a section at work hangs; "" where none does, or where too few have been timed to tell."""
        for name, since in list(self._open):
            took, known = time.monotonic() - since, list(self._took.get(name, ()))
            slowest = max(known, default=0.0)
            few, least = (1, self._between) if name else (_TIMED, self._least)
            if len(known) >= few and took > max(least, _LATE * slowest):
                return (f"{name or 'a training step'} has taken {took:.0f} s, and the slowest of the last {len(known)} "
                        f"{slowest:.1f} s")
        return ""


class Progress:
    """Writer of `progress.json`: atomic, and at most twice a second.

    update(done, total, unit, note): `done` of `total` units ("tokens", "documents", "items"); `note` is a
    short text such as "loss 2.31". Failing to write is ignored: a view is not worth a run. `check` is called now and
    then, and raises where what the step makes would be refused at its end. `watched`: its training steps. `cause`:
    why the processes before this one ended, where they are started again.

    Attributes:
        stalled: seconds that saving has held up training, where it says so, for its goodput (core/store/goodput.py).
        save_every: steps between two of its states, where it says so."""

    def __init__(self, path: Path | None, check: Callable[[], None] = lambda: None, watched: Watched | None = None,
                 cause: str = "") -> None:
        self.watched = watched or Watched()
        self._path, self._check = path, check
        self._checked = time.monotonic()
        self._first: tuple[float, float] | None = None  # units done at the first update, and when that was
        self._last = float("-inf")
        self._main: dict[str, Any] = {"done": 0.0, "total": 0.0, "unit": "", "note": "", "rate": 0.0}
        self._part: Part | None = None
        self.stalled: float | None = None
        self.save_every = 0
        self._started = time.time()
        self._runs: list[dict[str, Any]] = read_record(path).get("runs", []) if path else []  # of processes before
        self._run: dict[str, Any] = {}
        self._cause = cause

    def update(self, done: float, total: float, unit: str = "", note: str = "", *, force: bool = False) -> None:
        """Report that `done` of `total` units are done; the rate is that since the first report."""
        if self.stalled is not None:
            self._note_run(done, self.stalled)
        now = time.monotonic()
        first, since = self._first = self._first or (done, now)
        rate = (done - first) / max(now - since, 1e-9)
        self._main = {"done": done, "total": total, "unit": unit, "note": note, "rate": rate}
        self._write(force or done >= total)

    def _note_run(self, done: float, stalled: float) -> None:
        now = time.time()
        if not self._run:
            self._run = {"started": self._started, "began": now, "from": done, "done": done, "undone": 0.0}
            self._run |= {"cause": self._cause} if self._cause else {}
            self._runs.append(self._run)
        self._run["undone"] += max(0.0, self._run["done"] - done)
        self._run |= {"done": done, "at": now, "stalled": stalled, "save_every": self.save_every}

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Show the part `name` beside the main count; what is `counted` inside is how far it is. It is `watched`."""
        before, self._part = self._part, Part(name, self._write)
        token = _PART.set(self._part)
        self._write(True)
        try:
            with self.watched(name):
                yield
        finally:
            _PART.reset(token)
            self._part = before
        self._write(True)

    def _write(self, force: bool) -> None:
        now = time.monotonic()
        if self._path is None or (now - self._last < _INTERVAL_S and not force):
            return
        self._last = now
        if now - self._checked >= _CHECK_S:
            self._checked = now
            self._check()
        record = {**self._main, "part": self._part and self._part.record(), "time": time.time()}
        record |= {"runs": self._runs} if self._runs else {}
        with contextlib.suppress(OSError):
            write_json(self._path, record, durable=False)


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class StepContext:
    """The surroundings of a step: all that it may use beside its config.

    A step of several processes is `run` in each of them; the tracker and the progress of all but rank 0 go nowhere, and
    what rank 0 returns is the step's outputs."""

    out: Path  # the only directory that the step writes
    tracker: Tracker  # metrics, params, artifacts and models; never blocks, never fails
    progress: Progress  # how far it is, for the live view
    rank: int = 0  # of this process, among all
    world: int = 1  # how many there are
    local_rank: int = 0  # of this process, on its machine

    @property
    def device(self) -> Any:
        """Return the torch.device of this process: a GPU of its own, else the CPU. Raises InputError: there are GPUs,
        but not one for each process."""
        here = int(os.environ.get("LOCAL_WORLD_SIZE", self.world))
        kind = device_kind()
        count = torch.get_device_module(kind).device_count() if kind != "cpu" else 0
        if 0 < count < here:
            raise InputError(f"processes is {self.world}, and this step sees {count} of the GPUs: each needs its own; "
                             "lower processes, or set resources.STAGE.gpus=0 to train on the CPU")
        return torch.device(kind, self.local_rank) if count else torch.device("cpu")


class Planned(Protocol):
    """A node of a pipeline, as the check of a step sees it before anything runs."""

    @property
    def name(self) -> str:
        """The stage's name."""

    @property
    def place(self) -> str:
        """The place of its fields in the pipeline's config, for errors."""

    @property
    def config(self) -> Any:
        """The step's config, without the directories of what is upstream."""

    @property
    def gpus(self) -> int:
        """Number of devices that it will see."""

    @property
    def upstream(self) -> "Mapping[str, Sequence[Planned]]":
        """Upstream nodes by field of the config."""


@dataclass(frozen=True)
class Step(Generic[C]):
    """A step as the graph sees it. A module `steps/<name>.py` has one, named STEP.

    All that others must know of a step stands here: a list of steps elsewhere would lack the next one.

    Attributes:
        name: the module's name below `steps`.
        config: its config class; fields with a role are wired by the graph (see argosy.core.config.schema).
        run: does the work; returns the outputs (a Config; paths in it are relative to `context.out`).
            Started again after a crash, it continues from what it finds below `context.out`.
        version: raised by whoever changes what the step makes of the same config.
        needs: the image that it runs in on a cluster: `data` (without torch) or `train`.
        metrics: kinds of what it logs, by name or pattern (`words/*`), for report and comparison.
        check: refuses (InputError) what the step would refuse minutes or hours later; gets the parts of the stage that
            are to run, and all nodes of the pipeline.
        methods: values of `method` by which an item of `posttraining` asks for the step.
        files: files of the data step that a field of the config may name.
        after: the stage of which a field gets the directory; such a step is a stage of every pipeline, called by its
            own name, without a line in workflows/lifecycle.py. An optional one is there where it is asked for.
        also: with `after`, the step whose nodes a field gets the directories of, where a pipeline has some.
        makes_model: whether it leaves checkpoints of a language model, which a pipeline evaluates.
        implied: whether the stage is there where another needs it, without a place in `stages`."""

    name: str
    config: type[C]
    run: Callable[[C, StepContext], Config]
    version: int = 1
    needs: Literal["data", "train"] = "data"
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    check: Callable[[Sequence[Planned], Sequence[Planned]], None] | None = None
    methods: tuple[str, ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    makes_model: bool = False
    implied: bool = False
