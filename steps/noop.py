"""A step that does nothing, or writes bytes and takes its time: for tests and for measuring the cost of a step.

It writes `data.bin` slice by slice, and continues after a kill from the slices that are there."""

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from argosy.core.config.schema import RUNTIME, Config, Externals, ParallelConfig, Upstreams
from argosy.core.errors import InputError, StepError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext

_SLICE_S = 0.05


class NoopConfig(ParallelConfig):
    """Bytes to write, how slowly, and whether to fail."""

    after: Upstreams = ()
    """directories that must be done before"""
    inputs: Externals = ()
    """files that are read by nobody"""
    index: int = 0
    """tells one such step from another"""
    size: int = Field(0, ge=0)
    """bytes to write"""
    seconds: Annotated[float, RUNTIME] = Field(0.0, ge=0)
    """Duration of the step."""
    fail: Annotated[Literal["", "error", "input", "crash", "exit", "kill", "hang"], RUNTIME] = ""
    """fail with exit code 1, with exit code 2, with a traceback, without a word, killed, or not end at all"""
    fail_rank: Annotated[int, RUNTIME] = Field(0, ge=0)
    """the rank that fails"""


class NoopOutputs(Config):
    """Size and hash of the bytes that were written."""

    size: int
    sha256: str


def run(config: NoopConfig, context: StepContext) -> NoopOutputs:
    """Write `config.size` bytes of a fixed pattern, in as many slices as `config.seconds` holds; each rank its own."""
    data = bytes((config.index + i) % 251 for i in range(config.size))
    path = context.out / (f"data-{context.rank}.bin" if context.rank else "data.bin")
    slices = max(1, round(config.seconds / _SLICE_S))
    with open(path, "ab") as file:
        for k in range(file.tell() * slices // config.size if config.size else 0, slices):
            with context.progress.watched():
                file.write(data[file.tell(): config.size * (k + 1) // slices])
                file.flush()
                if context.rank == config.fail_rank and config.fail == "hang" and 2 * k > slices:
                    _hang(context.out / "hung")
            context.progress.update(k + 1, slices, "slices", f"{file.tell()} bytes")
            time.sleep(config.seconds / slices)
    if context.rank == config.fail_rank:
        _fail(config.fail)
    return NoopOutputs(size=config.size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _hang(once: Path) -> None:
    """Wait for ever, the first time."""
    if not once.exists():
        once.touch()
        time.sleep(10**6)


def _fail(how: str) -> None:
    if how == "error":
        raise StepError("failed on request")
    if how == "input":
        raise InputError("fail = 'input', allowed: ''; this step was asked to fail")
    if how == "crash":
        raise ValueError("crashed on request")
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


STEP = Step("noop", NoopConfig, run)

if __name__ == "__main__":
    main(STEP)
