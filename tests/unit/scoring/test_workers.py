"""Processes that help an evaluation: they end with it, however it ends, and say why they cannot help."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.errors import InputError
from argosy.scoring.workers import Helper, Work
from tests.processes import alive, until

ROOT = Path(__file__).parents[3]
PROGRAM = "from tests.unit.scoring import test_workers as t\nfor pid in t.computed_by(t.slow): print(pid, flush=True)"


def slow(*given: Any) -> Any:
    """Load a computer, as a helper does, or compute a task of two arguments: the id of the process."""
    time.sleep(0.1)
    return SimpleNamespace(compute=slow) if len(given) == 1 else os.getpid()


def broken(helper: Helper) -> Any:
    raise InputError("cannot load the checkpoint x: no kernel for this GPU")


def computed_by(load: Any) -> Any:
    """The process that computes each of many tasks, which one helper shares."""
    work = Work(helpers=[Helper(load, Path(), 1, 1, 0, 1)])
    try:
        yield from (pid for _, pid in work.run("", range(5000), lambda task: slow("", task), [1] * 5000))
    finally:
        work.close()


def test_a_helper_ends_with_an_evaluation_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        helper = next(pid for line in process.stdout if (pid := int(line)) != process.pid)
        process.kill()
    until(lambda: not alive(helper))


def test_a_helper_that_cannot_load_the_model_says_why() -> None:
    with pytest.raises(InputError, match="cannot load the checkpoint x: no kernel for this GPU"):
        list(computed_by(broken))
