"""Batches of an evaluation: read where they are known, else computed, here and by other processes.

Which process computes a batch changes nothing of it: batches are planned before they are dealt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from argosy.errors import StepError
from argosy.evaluation.journal import Journal, key_of

_AHEAD = 2  # batches that a process is given at a time, so that it never waits for the next one


@dataclass(frozen=True)
class Helper:
    """What another process needs to load the same model."""

    checkpoint: Path
    batch_tokens: int
    threads: int
    seed: int
    number: int  # from 1; decides which GPU


@dataclass
class Work:
    """journal: of an evaluation that may be killed; helpers: processes beside this one."""

    journal: Journal | None = None
    helpers: Sequence[Helper] = ()
    _pools: list[ProcessPoolExecutor] = field(default_factory=list)

    def run(self, kind: str, tasks: Sequence[Any], compute: Callable[[Any], Any]) -> Iterator[tuple[int, Any]]:
        """(index of the task, what was found) in any order; what is found is made of lists, numbers and texts.

        Args:
            kind: of the tasks: a key of TASKS.
            tasks: made of tuples, numbers and texts.
            compute: a task in this process.

        Raises:
            StepError: a process has ended.
        """
        keys = [key_of(kind, task) for task in tasks] if self.journal is not None else []
        left = deque[int]()
        for index in range(len(tasks)):
            known = self.journal.get(keys[index]) if self.journal is not None else None
            if known is None:
                left.append(index)
            else:
                yield index, known
        for index, found in self._computed(kind, tasks, left, compute):
            if self.journal is not None:
                self.journal.put(keys[index], found)
            yield index, found

    def _computed(
        self, kind: str, tasks: Sequence[Any], left: deque[int], compute: Callable[[Any], Any]
    ) -> Iterator[tuple[int, Any]]:
        if not self.helpers or len(left) < 2:
            yield from ((index, compute(tasks[index])) for index in left)
            return
        self._start()
        running: dict[Future[Any], tuple[int, ProcessPoolExecutor]] = {}

        def submit(pool: ProcessPoolExecutor) -> None:
            if left:
                index = left.popleft()
                running[pool.submit(compute_here, kind, tasks[index])] = (index, pool)

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

    def _start(self) -> None:
        if not self._pools:
            spawn = get_context("spawn")
            self._pools = [ProcessPoolExecutor(1, spawn, load_here, (helper,)) for helper in self.helpers]

    def close(self) -> None:
        """End the other processes."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools = []


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool:
        raise StepError("a process of the evaluation has ended, as one does that needs more memory than there is: use "
                        "fewer `processes`; run again, and it goes on from what is already computed") from None


_LOADED: list[Any] = []  # the model of a helper's process


def load_here(helper: Helper) -> None:
    """Load the model in a helper's process."""
    from argosy.determinism import make_deterministic
    from argosy.environment import die_with_parent

    die_with_parent()
    make_deterministic(helper.seed, helper.threads)
    from argosy.evaluation.checkpoint import Checkpoint
    from argosy.evaluation.language_model import LanguageModel

    checkpoint = Checkpoint(helper.checkpoint, helper.checkpoint.name)
    _LOADED.append(LanguageModel.load(checkpoint, helper.batch_tokens, device=helper.number))


def compute_here(kind: str, task: Any) -> Any:
    """A task in a helper's process."""
    return _LOADED[0].compute(kind, task)
