"""Rollouts in the order of the updates that learn from them; the next one is made beside the update, by a thread."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

import torch

from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.rollout import Collector, Rollout

_CLOSE_S = 5.0  # patience with a generation that is given up; below the grace of a pod or of the ranks
_Task = tuple["Future[Rollout]", Callable[[], Rollout]]


class Ahead:
    """The rollouts that wait for their update, at most `staleness` of them: number k is sampled by the weights after
    update k - staleness, or by those of the start.

    With `overlap` and a `staleness` above 0 the last one that is due is made in a thread while the update runs. Only
    the moment differs: the thread samples from a copy of the weights, which nothing else touches, answers depend on
    their seeds alone, and it is waited for before weights are sent again, before a state is saved, and before its
    rollout is needed.

    Attributes:
        waiting: the rollouts that are made, oldest first."""

    def __init__(self, collector: Collector, config: RLHFConfig, steps: int) -> None:
        self.collector, self.steps = collector, steps
        self.staleness, self._beside = config.staleness, bool(config.staleness and config.overlap)
        self.waiting: deque[Rollout] = deque()
        self._running: Future[Rollout] | None = None
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        if self._beside:
            collector.use_group_of_its_own()
            threading.Thread(target=_work, args=(self._tasks, collector.device), name="rollouts", daemon=True).start()

    def state(self) -> list[dict[str, Any]]:
        """Return the rollouts that wait, all of them made, for a resumable state."""
        self.settle()
        return [asdict(rollout) for rollout in self.waiting]

    def restore(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Take them over."""
        self.waiting = deque(Rollout(**each) for each in state)

    def settle(self) -> None:
        """Wait for the rollout that is being made; raises what it failed with."""
        if self._running is not None:
            begun = time.perf_counter()
            rollout = self._running.result()
            rollout.waited = time.perf_counter() - begun
            self.waiting.append(rollout)
            self._running = None

    def prepare(self, number: int, *, wanted: bool = False) -> None:
        """Give the sampler the weights that stand before update `number`, where rollouts are due or it is `wanted`."""
        self.settle()
        if wanted or self._due(number):
            self.collector.publish(number)

    def take(self, number: int) -> Rollout:
        """Make what is due before update `number` (after `prepare`), but what is made beside it; returns the rollout
        that the update learns from."""
        while self._due(number) > self._beside:
            self.waiting.append(self.collector.collect())
            self.waiting[-1].waited = self.waiting[-1].seconds
        return self.waiting.popleft()

    def start(self, number: int) -> None:
        """Begin to make the last rollout that is due, after `take`; one that nobody would learn from is not made."""
        if self._due(number, taken=1):
            self._running = Future()
            self._tasks.put((self._running, self.collector.collect))

    def close(self) -> None:
        """Give up what is being made, and end the thread."""
        self.collector.sampler.cancelled.set()
        self._tasks.put(None)
        if self._running is not None:
            wait([self._running], _CLOSE_S)

    def _due(self, number: int, taken: int = 0) -> int:
        return min(number + self.staleness + 1, self.steps) - number - taken - len(self.waiting)


def _work(tasks: "SimpleQueue[_Task | None]", device: torch.device) -> None:
    """Make rollouts one after another, on a stream of their own where there is a GPU."""
    stream = None
    if device.type == "cuda":
        torch.cuda.set_device(device)  # each thread has its own
        stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream) if stream else nullcontext():
        while (task := tasks.get()) is not None:
            future, make = task
            try:
                made = make()
                if stream:
                    stream.synchronize()
                future.set_result(made)
            except BaseException as error:  # the main thread raises it where it waits
                future.set_exception(error)
