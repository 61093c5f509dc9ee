"""Does nothing, or writes bytes and takes its time: for tests and for measuring the cost of a step.

Writes `data.bin` slice by slice, and continues after a kill from the slices that are there.
"""

from __future__ import annotations

import hashlib
import time
from typing import Annotated, Literal

from pydantic import Field

from argosy.config import RUNTIME, Config, Externals, Upstreams
from argosy.errors import InputError, StepError
from argosy.step import Step, StepContext

_SLICE_S = 0.05


class NoopConfig(Config):
    """What to write, how slowly, and whether to fail."""

    after: Upstreams = Field((), description="directories that must be done before")
    inputs: Externals = Field((), description="files that are read by nobody")
    index: int = Field(0, description="tells one such step from another")
    size: int = Field(0, ge=0, description="bytes to write")
    seconds: Annotated[float, RUNTIME] = Field(0.0, ge=0, description="how long to take")
    fail: Annotated[Literal["", "error", "input", "crash"], RUNTIME] = Field(
        "", description="fail with exit code 1, with exit code 2, or with a traceback")


class NoopOutputs(Config):
    """What was written."""

    size: int
    sha256: str


def run(config: NoopConfig, context: StepContext) -> NoopOutputs:
    """Write `config.size` bytes of a fixed pattern, in as many slices as `config.seconds` holds."""
    data = bytes((config.index + i) % 251 for i in range(config.size))
    path = context.out / "data.bin"
    slices = max(1, round(config.seconds / _SLICE_S))
    with open(path, "ab") as file:
        for k in range(_finished_slices(file.tell(), config.size, slices), slices):
            file.write(data[file.tell(): config.size * (k + 1) // slices])
            file.flush()
            context.progress.update(k + 1, slices, "slices", f"{file.tell()} bytes")
            time.sleep(config.seconds / slices)
    _fail(config.fail)
    return NoopOutputs(size=config.size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _finished_slices(written: int, size: int, slices: int) -> int:
    return written * slices // size if size else 0


def _fail(how: str) -> None:
    if how == "error":
        raise StepError("failed on request")
    if how == "input":
        raise InputError("fail = 'input', allowed: ''; this step was asked to fail")
    if how == "crash":
        raise ValueError("crashed on request")


STEP = Step("noop", NoopConfig, run)

if __name__ == "__main__":
    STEP.main()
