"""Meter of a phase: the time of each part of a step, speed, use of the device, memory."""

import time
from itertools import pairwise
from typing import Any

import torch

from argosy.core.errors import InputError
from argosy.core.step.process import memory_mb
from argosy.model.train.config import TrainConfig
from argosy.model.train.parallel import Group
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.compute import training_flops
from argosy.model.train.sizing.gpus import gpu_of
from argosy.model.train.sizing.job import Layout, read_job

PARTS = ("read", "collate", "forward", "loss", "backward", "sync", "optimizer", "log")


class Clock:
    """Stopwatch of optimizer steps: a lap gives a part the time since the lap before it.

    On a GPU a lap is an event of its stream, so that a part has the time that the device works or waits in it, and
    nothing waits for the device until the laps are read."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._laps: list[tuple[str, Any]] = []  # the part that ends there, "" where a step begins
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
        """End a part of the step."""
        if not self._running:
            return
        now: Any = time.perf_counter()
        if self._on_gpu:
            now = torch.cuda.Event(enable_timing=True)
            now.record()
        self._laps.append((part, now))

    def take(self) -> dict[str, float]:
        """Return the milliseconds of each of PARTS, means over the steps since the last time; waits for the device.

        The time that follows is the next one's, so that `log` is the time of the logs before."""
        if self._on_gpu:
            self._laps[-1][1].synchronize()
        spent = dict.fromkeys(PARTS, 0.0)
        for (_, begun), (part, ended) in pairwise(self._laps):
            if part:
                spent[part] += begun.elapsed_time(ended) if self._on_gpu else 1000 * (ended - begun)
        steps, self._steps = self._steps, 0
        self._laps = [("", self._laps[-1][1])]
        return {part: each / steps for part, each in spent.items()}


class Meter:
    """Metrics of how a phase runs, over the steps since the last log, of rank 0; none of them decides a result."""

    def __init__(self, config: TrainConfig, group: Group, model: Any, clock: Clock) -> None:
        self._tokens, self._clock, self._device = config.tokens_per_step, clock, group.device
        self._full = _full_speed(config, group, model)

    def metrics(self) -> dict[str, float]:
        """Return times of parts in ms, tokens a second over all processes, MFU where the device's peak is known, and
        memory in MiB."""
        spent = self._clock.take()
        step = sum(spent.values())
        speed = 1000 * self._tokens / step
        found = {f"time/{part}_ms": each for part, each in spent.items()}
        found |= {"time/step_ms": step, "perf/tokens_per_second": speed}
        if self._full:
            found["perf/mfu"] = speed / self._full
        return found | {f"memory/{name}_mb": each for name, each in self._memory().items()}

    def _memory(self) -> dict[str, float]:
        """Return MiB: of the GPU, or of the process where it trains on a CPU."""
        if self._device.type != "cuda":
            return memory_mb()
        found = {"allocated": torch.cuda.memory_allocated, "reserved": torch.cuda.memory_reserved,
                 "peak": torch.cuda.max_memory_allocated}
        return {name: read(self._device) / 2**20 for name, read in found.items()}


def _full_speed(config: TrainConfig, group: Group, model: Any) -> float:
    """Return the tokens a second that all devices would train on at their peak, by the FLOPs of the model without what
    is computed again (PaLM, Chowdhery et al. 2022, appendix B); 0 where that is not known."""
    if group.device.type != "cuda" or config.dtype != "bfloat16":
        return 0.0
    gpu = gpu_of(torch.cuda.get_device_name(group.device))
    try:
        job = read_job(config.model_dump(), read_architecture(model.config.to_dict()))
    except InputError:  # the planner knows fewer architectures
        return 0.0
    return group.world * gpu.flops / training_flops(job, Layout(), 1) if gpu else 0.0
