"""Two programs at the same work in turns, a process each, so that each has a peak of memory of its own."""

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from argosy.core.step.process import thread_environment

ROOT = Path(__file__).resolve().parents[1]
THREADS = 2


def environment(name: str, threads: int) -> dict[str, str]:
    """Return what "ours" starts with, as `argosy run` starts a step; a peer as anybody would, with as many threads."""
    ours = thread_environment(threads)
    return ours if name == "ours" else {key: text for key, text in ours.items() if key.endswith("THREADS")}


class Turn(NamedTuple):
    """One side's task: its seconds by the clock, and what came of it."""

    seconds: float
    result: Any


class Side:
    """A process of its own that works.

    Args:
        make: makes its work there, of `arguments`; a function of a module.
        given: variables of its environment; two threads by default."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any, given: Mapping[str, str] | None = None
                 ) -> None:
        threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (make, arguments))
        with mock.patch.dict(os.environ, {**(given or threads), **quiet}):
            self._pool.submit(_peak).result()  # which starts it

    def work(self, **task: Any) -> Any:
        """Do a task; returns what came of it."""
        return self._pool.submit(_done, task).result()

    def close(self) -> float:
        """End it; its peak memory in MiB."""
        peak = self._pool.submit(_peak).result()
        self._pool.shutdown()
        return peak


_work: list[Callable[..., Any]] = []  # of a side's process


def _begin(make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    os.dup2(2, 1)  # what libraries print is no figure
    _work.append(make(*arguments))


def _done(task: dict[str, Any]) -> Any:
    return _work[0](**task)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_turns(sides: Mapping[str, Callable[[], Any]], rounds: float, about: str = "") -> dict[str, list[Turn]]:
    """Run each side once a round, in every round another one first, so that what other work takes from the machine is
    taken from all; return the turns of each. `about`: what is done, to print a line for each round."""
    turns: dict[str, list[Turn]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(max(1, round(rounds))):
        for name in order:
            began = time.perf_counter()
            result = sides[name]()
            turns[name].append(Turn(time.perf_counter() - began, result))
        order = [*order[1:], order[0]]
        if about:
            each = ", ".join(f"{name} {some[-1].seconds:.2f} s" for name, some in turns.items())
            print(f"{about}, round {len(turns[name])}: {each}", flush=True)
    return turns


def median_ratio(above: Iterable[float], below: Iterable[float]) -> float:
    """Return the median over rounds of the ratio of two sides in the same round."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def shared(name: str) -> Path:
    """The place of real data beside the checkout, if any."""
    beside, within = (root / "shared/data" / name for root in (ROOT.parent, ROOT))
    return within if within.exists() else beside


def needed(name: str) -> Path:
    """Return the same place; exits where it is not there."""
    if not (found := shared(name)).is_dir():
        raise SystemExit(f"{found} is absent: the benchmark needs it")
    return found
