"""Processes that help an evaluation: they end with it, however it ends, and say why they cannot help."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.model.infer.backends import open_model
from argosy.model.infer.model import load_helper
from argosy.model.infer.work import Helper, Work
from argosy.model.weights.load import load_model
from tests.evaluation_fixtures import save_checkpoint
from tests.processes import alive, until

ROOT = Path(__file__).parents[4]
PROGRAM = "from tests.unit.model.infer import test_workers as t\n" \
          "for pid in t.computed_by(t.slow): print(pid, flush=True)"


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


def test_every_process_computes_in_the_precision_that_is_given(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "model")
    load_model(checkpoint.path).bfloat16().save_pretrained(checkpoint.path)
    for given, dtype in (({}, "bfloat16"), ({"dtype": "float32"}, "float32"), ({"dtype": "weights"}, "bfloat16")):
        with open_model(checkpoint, tmp_path / "state", processes=2, **given) as model:
            [helper] = model.scorer.work.helpers
            models = (model, load_helper(helper))
            assert {str(each.dtype) for one in models for each in one.model.parameters()} == {f"torch.{dtype}"}
