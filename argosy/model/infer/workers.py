"""Batches of an evaluation: read where a journal has them, else computed, here and by other processes.

The process that computes a batch changes nothing of it: batches are planned before they are dealt."""

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from argosy.core.errors import StepError
from argosy.core.step.contract import Progress
from argosy.model.infer.cache import Records

_AHEAD = 2  # batches that a process is given at a time, so that it never waits for the next one


class Computer(Protocol):
    """A model that computes batches."""

    def compute(self, kind: str, task: Any) -> Any:
        """Compute a batch of a kind; made of lists, numbers and texts, as its result is."""


@dataclass(frozen=True)
class Helper:
    """Another process that computes batches with the same model."""

    load: "Callable[[Helper], Computer]"
    """a function of a module, which loads the model in that process"""
    checkpoint: Path
    batch_tokens: int
    threads: int
    seed: int
    number: int
    """from 1; decides which GPU"""
    dtype: str = "weights"


class Journal:
    """Results of an evaluation, batch by batch, so that one that is killed goes on where it was.

    Keys are digests of all that a batch consists of, so a result that is read is what would be computed, to the last
    digit."""

    def __init__(self, directory: Path) -> None:
        self._records = Records(directory)
        self._results = dict(self._records.read())

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: str) -> Any:
        """Look up the result of a batch; None where there is none."""
        text = self._results.get(key)
        return None if text is None else json.loads(text)

    def put(self, key: str, result: Any) -> None:
        """Write the result of a batch."""
        self._records.write({key: json.dumps(result)})


def key_of(kind: str, task: Any) -> str:
    """Hash a batch."""
    return hashlib.sha256(repr((kind, task)).encode()).hexdigest()[:32]


@dataclass
class Work:
    """The computation of batches; that of an evaluation that may be killed has a journal."""

    journal: Journal | None = None
    helpers: Sequence[Helper] = ()
    """processes beside this one"""
    progress: Callable[[int, int], None] = lambda done, total: None
    """is called with the requests that are computed so far, and those that are planned"""
    _done: int = 0
    _planned: int = 0
    _pools: list[ProcessPoolExecutor] = field(default_factory=list)

    def run(
        self, kind: str, tasks: Sequence[Any], compute: Callable[[Any], Any], sizes: Sequence[int]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) in any order; results are made of lists, numbers and texts.

        Args:
            kind: of the tasks, as `Computer.compute` takes it.
            tasks: made of tuples, numbers and texts.
            compute: a task in this process.
            sizes: requests of each task.

        Raises StepError: a process has ended; whatever a helper's `load` raises."""
        self._planned += sum(sizes)
        journal = self.journal
        keys = [key_of(kind, task) for task in tasks] if journal is not None else []
        found = [None if journal is None else journal.get(keys[index]) for index in range(len(tasks))]
        left = deque(index for index, result in enumerate(found) if result is None)
        known = ((index, result) for index, result in enumerate(found) if result is not None)
        for index, result in chain(known, self._computed(kind, tasks, left, compute)):
            if journal is not None and found[index] is None:
                journal.put(keys[index], result)
            self._done += sizes[index]
            self.progress(self._done, self._planned)
            yield index, result

    def _computed(
        self, kind: str, tasks: Sequence[Any], left: deque[int], compute: Callable[[Any], Any]
    ) -> Iterator[tuple[int, Any]]:
        if not self.helpers or len(left) < 2:
            yield from ((index, compute(tasks[index])) for index in left)
            return
        if not self._pools:
            spawn = get_context("spawn")
            self._pools = [ProcessPoolExecutor(1, spawn, _load_here, (helper, os.getpid())) for helper in self.helpers]
        running: dict[Future[Any], tuple[int, ProcessPoolExecutor]] = {}

        def submit(pool: ProcessPoolExecutor) -> None:
            if left:
                index = left.popleft()
                running[pool.submit(_compute_here, kind, tasks[index])] = (index, pool)

        for pool in self._pools * _AHEAD:
            submit(pool)
        while left or running:
            if left:
                index = left.popleft()
                yield index, compute(tasks[index])
            done, _ = wait(running, timeout=0 if left else None, return_when=FIRST_COMPLETED)
            for future in done:
                index, pool = running.pop(future)
                submit(pool)
                yield index, _result(future)

    def close(self) -> None:
        """End the other processes."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools = []


def reporter(progress: Progress, section: str) -> Callable[[int, int], None]:
    """Report computed requests to progress.json, and once a minute to the log, with the time that is left."""
    started, said = time.monotonic(), time.monotonic()
    first: int | None = None

    def report(done: int, total: int) -> None:
        nonlocal first, said
        now = time.monotonic()
        first = done if first is None else first
        left = (now - started) * (total - done) / (done - first) if done > first else 0.0
        note = f"{section}, {left / 60:.0f} min left" if left >= 60 else section
        progress.update(done, total, "requests", note)
        if now - said >= 60:
            said = now
            print(f"{section}: {done} of {total} requests, {left / 60:.0f} min left", flush=True)

    return report


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool:
        raise StepError("a process of the evaluation has ended, as one does that needs more memory than there is: use "
                        "fewer `processes`; run again, and it goes on from what is already computed") from None


_LOADED: list[Computer | Exception] = []  # the model of a helper's process, or why there is none


def _load_here(helper: Helper, parent: int) -> None:
    """Load the model in a helper's process. An error waits for the first task: of one raised here, the pool says only
    that it is broken."""
    from argosy.core.step.process import die_with_parent, make_deterministic

    die_with_parent(parent)
    try:
        make_deterministic(helper.seed, helper.threads)
        _LOADED.append(helper.load(helper))
    except Exception as error:
        _LOADED.append(error)


def _compute_here(kind: str, task: Any) -> Any:
    """Compute a task in a helper's process."""
    if isinstance(loaded := _LOADED[0], Exception):
        raise loaded
    return loaded.compute(kind, task)
