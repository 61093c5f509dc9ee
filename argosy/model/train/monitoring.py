"""Measurements of a phase: speed, memory, loads of experts, losses; traces for other tools."""

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import InputError
from argosy.core.step.contract import StepContext
from argosy.core.step.machine import missing
from argosy.core.step.process import memory_mb
from argosy.core.store.files import write_atomic
from argosy.core.store.step_files import TRACKING
from argosy.model.train.clock import Clock
from argosy.model.train.config import ProfileConfig, TrainConfig
from argosy.model.train.parallelism import Group
from argosy.model.train.sizing.architecture import read_architecture
from argosy.model.train.sizing.gpus import gpu_of, training_flops
from argosy.model.train.sizing.job import Layout, read_job
from argosy.model.train.watch import LOSS, REPEATED, Reading

_BATCHES = 8  # steps in which a batch that comes again is noticed


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
        if self._device.type == "cpu":
            return memory_mb()
        of = torch.get_device_module(self._device)
        found = {"allocated": of.memory_allocated, "reserved": of.memory_reserved, "peak": of.max_memory_allocated}
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


class Trace:
    """Chrome's trace of some steps of rank 0, `tracking/trace-<first>-<last>.json.gz` and an artifact of the step.

    A phase that goes on within these steps traces what is left of them."""

    def __init__(self, config: ProfileConfig | None, context: StepContext) -> None:
        self._first, self._last = config.steps if config and context.rank == 0 else (0, 0)
        self._context = context
        self._profiler: Any = None

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Trace what happens inside, where step `number` is one of them."""
        if not self._first <= number <= self._last:
            yield
            return
        from torch.profiler import profile, record_function

        if self._profiler is None:
            self._profiler = profile()
            self._profiler.start()
        try:
            with record_function(f"step {number}"):
                yield
        except BaseException:
            self._profiler.stop()
            raise
        if number == self._last:
            self._profiler.stop()
            self._write()

    def _write(self) -> None:
        path = self._context.out / TRACKING / f"trace-{self._first}-{self._last}.json.gz"
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f".{path.name}")  # torch compresses by the name's end
        self._profiler.export_chrome_trace(str(temporary))
        os.replace(temporary, path)
        self._context.tracker.artifact(path, "trace")
        print(f"trace of steps {self._first} to {self._last}: {path}", flush=True)


class Events:
    """Event files of what a phase logs, below `tracking/tensorboard` of the step's directory, written by rank 0.

    Raises InputError: they are wanted (`on`), and the package that writes them is not installed."""

    def __init__(self, on: bool, context: StepContext) -> None:
        self._folder = context.out / TRACKING / "tensorboard"
        self._make: Any = None
        self._writer: Any = None
        if on and context.rank == 0:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise InputError(missing({"tensorboard": True}, "tensorboard") or f"tensorboard: {error}") from None
            self._make = SummaryWriter

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Write metrics; a phase that goes on hides those at the same and later steps, which it logs anew."""
        if self._make is None:
            return
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=step)
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


class ExpertLoad:
    """Means since the last log of what the routers of a loss module recorded, over all processes.

    Its `state` goes into the resumable state, so that a resumed run logs the same. Dense models have nothing here."""

    def __init__(self, module: Any, group: Group) -> None:
        self._routing: Any = getattr(module, "routing", None)
        self._group = group
        self._before: Tensor | None = None  # of the run that was resumed

    def _take(self) -> Tensor:
        """Return the sums over all processes since the last time; each of them calls this."""
        here = self._routing.take().to(self._group.device)
        if self._before is not None:
            here, self._before = here + self._before, None
        return self._group.sum(here).cpu()

    def state(self) -> dict[str, Any]:
        if self._routing is None:
            return {}
        total = self._take()
        self.restore({"routing": total})
        return {"routing": total}

    def restore(self, state: dict[str, Any]) -> None:
        if self._routing is not None and "routing" in state:
            self._before = state["routing"].to(self._group.device) * (1.0 if self._group.rank == 0 else 0.0)

    def metrics(self, context: StepContext) -> dict[str, float]:
        """Return `train/balance_loss`, `train/router_z_loss` and the loads of each block with experts and over all,
        and write the share of each expert; empties the sums.

        A load is a multiple of the even one: `train/experts/max_load` and `min_load` are 1 where routing is even, as
        is `entropy`, a share of that of even routing. Over all blocks: the highest, the lowest, the mean."""
        if self._routing is None:
            return {}
        total = self._take()
        layers, experts = self._routing.layers, self._routing.experts
        tokens, (balance, penalty, targets) = total[:-3].view(len(layers), experts), total[-3:].tolist()
        shares = tokens / tokens.sum(dim=1, keepdim=True).clamp(min=1)
        if context.rank == 0:
            self._write(context, shares)
        load = {"max_load": shares.amax(dim=1) * experts, "min_load": shares.amin(dim=1) * experts,
                "entropy": -torch.special.xlogy(shares, shares).sum(dim=1) / torch.tensor(float(experts)).log()}
        over: dict[str, Any] = {"max_load": torch.max, "min_load": torch.min, "entropy": torch.mean}
        values = {"train/balance_loss": balance / targets, "train/router_z_loss": penalty / targets}
        for name, column in load.items():
            values[f"train/experts/{name}"] = float(over[name](column))
            values |= {f"train/experts/{name}/{layer}": float(column[row]) for row, layer in enumerate(layers)}
        return values

    def _write(self, context: StepContext, shares: Tensor) -> None:
        """Write the share of each expert in its block's tokens, a row of the table for each block."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["block", *range(self._routing.experts)])
        rows.writerows([layer, *(f"{each:.6f}" for each in row)]
                       for layer, row in zip(self._routing.layers, shares.tolist(), strict=True))
        path = context.out / TRACKING / "expert_load.csv"
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, text.getvalue())
        context.tracker.artifact(path, "experts")


class LossWindow:
    """Collects each step's summed nats and counts by channel, over all processes.

    Its `state` goes into the resumable state, so that a resumed run logs the same averages."""

    def __init__(self, names: tuple[str, ...], group: Group) -> None:
        self._names = names
        self._group = group
        self._steps: list[Tensor] = []  # (2, channels) each: nats and counts
        self._batches: list[int] = []  # checksums of the latest batches

    def add(self, sums: Tensor, counts: Tensor, batch: int) -> None:
        """Add one step's summed nats and number of targets by channel, both (channels,) float64, and a checksum of 32
        bits of its samples, all of this process."""
        own = torch.cat([torch.stack([sums, counts]), sums.new_tensor([[batch], [0]])], dim=1)
        total = self._group.sum(own).cpu()  # of checksums too, which is exact
        self._steps.append(total[:, :-1])
        self._batches = [*self._batches[-_BATCHES:], int(total[0, -1])]

    def last(self) -> dict[str, Reading]:
        """Return the mean nats of the last step with their counts, as `train/loss` and `train/loss/<channel>`."""
        nats, counts = self._steps[-1].tolist()
        *before, batch = self._batches
        rows = {LOSS: (math.fsum(nats), sum(counts)), REPEATED: (float(batch in before), 1.0)}
        if len(counts) > 1:
            rows |= {f"{LOSS}/{name}": row
                     for name, row in zip(self._names, zip(nats, counts, strict=True), strict=True)}
        return {name: (total / count, count) for name, (total, count) in rows.items() if count}

    def state(self) -> dict[str, Any]:
        return {"losses": list(self._steps), "batches": self._batches}

    def restore(self, state: dict[str, Any]) -> None:
        self._steps, self._batches = list(state["losses"]), list(state.get("batches", []))

    def take(self) -> dict[str, float]:
        """Return the mean nats over the window as `train/loss` and `train/loss/<channel>`, and those of its highest and
        lowest step as `train/loss_max`, `train/loss_min` likewise, so that a spike is seen; empties it."""
        steps = torch.stack(self._steps)
        self._steps = []
        columns = {"": steps.sum(dim=2)} | {f"/{name}": steps[:, :, index] for index, name in enumerate(self._names)}
        losses = {}
        for name, column in columns.items():
            nats, counts = column[column[:, 1] > 0].unbind(dim=1)
            if len(counts):
                each = nats / counts
                losses[f"train/loss{name}"] = float(nats.sum() / counts.sum())
                losses |= {f"train/loss_max{name}": float(each.max()), f"train/loss_min{name}": float(each.min())}
        return losses
