"""Records for other tools: a trace of torch's profiler, event files for TensorBoard."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from argosy.core.errors import InputError
from argosy.core.step.contract import StepContext
from argosy.core.store.step_files import TRACKING
from argosy.model.train.config import ProfileConfig


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
            except ImportError:
                raise InputError("tensorboard=true needs the package tensorboard, which is not installed: `pip install "
                                 "tensorboard`, or set tensorboard=false (MLflow has the same curves)") from None
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
