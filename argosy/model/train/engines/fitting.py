"""Micro-batches that fit in the memory, and what to change where nothing does.

A process that waits for no other within a micro-batch tries: what runs out of memory is done again with less samples.
Where processes exchange weights or states meanwhile one of them would wait for ever, and a CPU's memory is not the
device's to refuse: there the planner (argosy/model/train/sizing) says beforehand what fits."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from argosy.core.errors import InputError, StepError
from argosy.core.step.machine import usable_memory_gb
from argosy.model.train.config import TrainConfig
from argosy.model.train.parallelism import Group
from argosy.model.train.sizing.advice import advice
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.gpus import RESERVE
from argosy.model.train.sizing.job import Job, Layout, read_job, read_layout
from argosy.model.train.sizing.layouts import fit
from argosy.model.train.sizing.memory import memory


class MicroBatch:
    """The samples of one forward and backward of a process.

    Attributes:
        size: their number; with micro_batch_size=auto it falls to the largest divisor that fits."""

    def __init__(self, config: TrainConfig, group: Group) -> None:
        self.size = config.micro_batch
        self._group, self._tries = group, config.micro_batch_size == "auto"

    def run(self, attempt: Callable[[], Tensor], forget: Callable[[], None]) -> Tensor:
        """Return what `attempt` does; where it runs out of memory in any process, `forget` its traces and try the next
        smaller divisor of the present size. Raises torch.OutOfMemoryError: one sample is too much, or the size is
        given."""
        if not self._tries:
            return attempt()
        while (result := self._attempted(attempt)) is None:
            if self.size == 1:
                raise torch.OutOfMemoryError("the forward and backward of one sample do not fit")
            forget()
            self.size = next(size for size in range(self.size - 1, 0, -1) if self.size % size == 0)
            print(f"memory ran out: going on with micro_batch_size={self.size}", flush=True)
        return result

    def _attempted(self, attempt: Callable[[], Tensor]) -> Tensor | None:
        result = None
        with suppress(torch.OutOfMemoryError):  # a traceback that is kept would keep the attempt's tensors alive
            result = attempt()
        if self._group.world == 1:  # nobody to agree with, and nothing to wait for
            return result
        failed = torch.tensor(float(result is None), device=self._group.device)
        return None if float(self._group.sum(failed)) else result


def settled(config: TrainConfig, model: Any, group: Group) -> TrainConfig:
    """Return the config with the planner's recomputation and micro-batch, where they are auto and cannot be tried.

    Raises InputError: the planner does not know the architecture."""
    tried = config.micro_batch_size != "auto" or _can_try(config, group)
    if tried and config.recompute_blocks != "auto":
        return config
    field = "recompute_blocks" if config.recompute_blocks == "auto" else "micro_batch_size"
    try:
        architecture = read_architecture(model.config.to_dict())
    except InputError as error:
        raise InputError(f"{field}=auto asks the planner, to which this model is unknown ({error}): give a "
                         "number") from None
    fields, on_cpu = config.model_dump(), group.device.type == "cpu"
    job, layout = read_job(fields, architecture, on_cpu=on_cpu), read_layout(fields, group.world, on_cpu=on_cpu)
    usable, found = _capacity(group) * (1 - RESERVE), {}
    if field == "recompute_blocks":
        found[field] = group.agreed(_share(job, layout, usable))
        layout = replace(layout, recomputed=found[field])
    if not tried:
        found["micro_batch_size"] = group.agreed(fit(job, layout, usable).job.micro_batch_size)
    for name, value in found.items():
        print(f"{name}={value}, by the planner's figure (argosy size)", flush=True)
    return config.model_copy(update=found)


def _share(job: Job, layout: Layout, usable: float) -> float:
    """Return the share of blocks that are computed again with `recompute_blocks: auto`."""
    fitting = (share for share in (0.25, 0.5, 0.75)
               if memory(job, replace(layout, recomputed=share)).total <= usable)
    return next(fitting, 1.0)


def _can_try(config: TrainConfig, group: Group) -> bool:
    """Tell whether memory is the device's, and no process waits for another within a micro-batch."""
    if group.device.type != "cuda" or config.engine.name == "zero":
        return False
    waits = config.engine.name in ("ddp", "fsdp") or any(size > 1 for size in config.divisors.values())
    return group.world == 1 or not waits


def _capacity(group: Group) -> float:
    if group.device.type != "cpu":
        return float(torch.get_device_module(group.device).get_device_properties(group.device).total_memory)
    return usable_memory_gb() * 1e9 / group.world


def _allowed(config: TrainConfig, model: Any, values: Mapping[str, Any]) -> bool:
    """Tell whether the phase can have these fields in place of its own."""
    try:
        other = TrainConfig.model_validate({**config.model_dump(include=set(TrainConfig.model_fields)), **values})
    except ValidationError:
        return False
    return not other.shape_problem(model.config.to_dict())


@contextmanager
def explained(config: TrainConfig, model: Any, group: Group) -> Iterator[None]:
    """Say what to change where the memory runs out, in the planner's order. Raises StepError."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).splitlines()[0] if str(error) else "the device has no more"
        fields = config.model_dump() | ({"micro_batch_size": 1} if config.micro_batch_size == "auto" else {})
        try:
            architecture = read_architecture(model.config.to_dict())
            if config.recompute_blocks == "auto":
                job, layout = read_job(fields, architecture), read_layout(fields, group.world)
                fields["recompute_blocks"] = _share(job, layout, _capacity(group) * (1 - RESERVE))
            lines = advice(fields, architecture, group.world, _capacity(group), partial(_allowed, config, model))
        except InputError as unknown:
            lines = [f"set micro_batch_size=1, then recompute=full (the planner cannot say more: {unknown})"]
        raise StepError(f"memory ran out ({reason}). What to change, the first to try first:\n  "
                        + "\n  ".join(lines)) from error

