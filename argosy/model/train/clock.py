"""Times of the parts of a step, and ranks that are slower in them than the others for long."""

import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from argosy.core.step.ranks.launcher import NODE
from argosy.model.train.parallelism import Group

PARTS = ("read", "collate", "forward", "loss", "backward", "sync", "optimizer", "log")


class Clock:
    """Stopwatch of optimizer steps: a lap gives a part the time since the lap before it.

    On a GPU a lap is an event of its stream, so that a part has the time that the device works or waits in it, and
    nothing waits for the device until the laps are read. `alone`: parts in which no process waits for another.

    Attributes:
        last: number of the steps that were taken last, the milliseconds of one, and those of one in these parts: their
            median."""

    def __init__(self, device: torch.device, alone: Sequence[str] = ()) -> None:
        self._on_gpu, self._alone, self.last = device.type != "cpu", alone, (0, 0.0, 0.0)
        self._events = torch.get_device_module(device)
        self._laps: list[tuple[str, Any, float]] = []  # the part that ends there, "" where a step begins; _queued
        self._schedule: int | None = None
        if not self._on_gpu:
            with suppress(OSError):
                self._schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._steps = 0
        self._running = False

    def start(self) -> None:
        """Begin a step; what came before it, such as an evaluation, is no part of a step."""
        self._running = True
        self._steps += 1
        self.lap("")

    def stop(self) -> None:
        """End a step: laps of the model's other uses are not counted until the next one begins."""
        self._running = False

    def lap(self, part: str) -> None:
        if not self._running:
            return
        now: Any = time.perf_counter()
        if self._on_gpu:
            now = self._events.Event(enable_timing=True)
            now.record()
        self._laps.append((part, now, self._queued()))

    def _queued(self) -> float:
        """Return the milliseconds for which this thread has waited for a core; they are not its own work."""
        return 0.0 if self._schedule is None else int(os.pread(self._schedule, 100, 0).split()[1]) / 1e6

    def take(self) -> dict[str, float]:
        """Return the milliseconds of each of PARTS, means over the steps since the last time; waits for the device.

        The time that follows is the next one's, so that `log` is the time of the logs before."""
        if self._on_gpu:
            self._laps[-1][1].synchronize()
        spent, own = dict.fromkeys(PARTS, 0.0), [0.0]
        for (_, begun, before), (part, ended, queued) in pairwise(self._laps):
            if not part:
                own.append(0.0)
                continue
            took = begun.elapsed_time(ended) if self._on_gpu else 1000 * (ended - begun)
            spent[part] += took
            own[-1] += took - (queued - before) if part in self._alone else 0.0
        steps, self._steps = self._steps, 0
        self.last = steps, sum(spent.values()) / steps, median(list(filter(None, own)) or [0.0])
        self._laps = [("", *self._laps[-1][1:])]
        return {part: each / steps for part, each in spent.items()}


_SLOW, _COST = 1.2, 0.02  # times the median of the others; least share of a step that others wait
_STEPS, _LOGS = 64, 8  # over which a rank is judged, at least


class Stragglers:
    """Ranks that the others wait for again and again, each named once.

    A rank is slow where it takes 20 % longer than the median of the others in three quarters of the last logs, each of
    which has the median of its steps: a pause, however long, is none."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._logs: deque[tuple[int, list[float], float]] = deque()  # steps, own ms by rank, ms of a step
        self._named: set[int] = set()

    def see(self, steps: int, mean: float, own: float) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Take what this rank's clock says `last`; returns metrics, and a record of each rank that is newly slow. Each
        process calls it, and returns the same."""
        if self._group.world == 1:
            return {}, []
        row = torch.zeros(self._group.world + 1, dtype=torch.float64, device=self._group.device)
        row[self._group.rank], row[-1] = own, mean / self._group.world
        *owns, mean = self._group.sum(row).tolist()
        self._logs.append((steps, owns, mean))
        while len(self._logs) > _LOGS and sum(each[0] for each in self._logs) - self._logs[0][0] >= _STEPS:
            self._logs.popleft()
        if len(self._logs) < _LOGS or sum(each[0] for each in self._logs) < _STEPS or not all(owns):
            return {}, []
        every = [self._judged(rank) for rank in range(self._group.world)]
        ratio, _, _, rank = max(every)
        found = [each for each in every if each[1] >= _SLOW and each[2] >= _COST and each[3] not in self._named]
        self._named |= {each[3] for each in found}
        return {"perf/straggler": ratio, "perf/straggler_rank": float(rank)}, self._records(found)

    def _judged(self, rank: int) -> tuple[float, float, float, int]:
        """Return how many times the others' median the rank takes: in half of the logs, and in three quarters, at
        least; the share of a step that it takes longer; the rank."""
        others = [median(row[:rank] + row[rank + 1:]) for _, row, _ in self._logs]
        ratios = sorted(row[rank] / max(other, 1e-9) for (_, row, _), other in zip(self._logs, others, strict=True))
        longer = median((row[rank] - other) / step for (_, row, step), other in zip(self._logs, others, strict=True))
        return median(ratios), ratios[len(ratios) // 4], longer, rank

    def _records(self, found: Sequence[tuple[float, float, float, int]]) -> list[dict[str, Any]]:
        if not found:
            return []
        nodes = self._group.gathered(f"{os.environ.get(NODE, 0)} ({socket.gethostname()})")
        steps = sum(each[0] for each in self._logs)
        return [{
            "rank": rank, "node": nodes[rank], "slower": ratio - 1, "cost": longer, "documents": [],
            "said": f"straggler: rank {rank} on node {nodes[rank]} takes {ratio - 1:.0%} longer than the median of the "
                    f"others for its own work, over the last {steps} steps; the others wait for it {longer:.0%} of the "
                    "time at least",
            "advice": f"run `argosy doctor nodes` on node {nodes[rank]}, or leave it out",
        } for ratio, _, longer, rank in found]
