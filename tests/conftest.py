"""Fixtures of several folders of tests."""

import gc
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from _pytest.capture import CaptureResult

from tests.command_line import Argosy

os.environ["COLUMNS"] = "126"  # tables are as wide as the terminal, which differs from machine to machine
os.environ["ARGOSY_LANG"] = "en"  # whatever the locale
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or hundreds of processes compile all our code, each anew
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of more workers than cores spin
gc.disable()  # until all is imported, of which nothing is garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def environment() -> Iterator[None]:
    """What a file's commands set for their steps does not reach the next file."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture
def own_tasks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep lm-eval from listing its own tasks, which takes many seconds."""
    import lm_eval.tasks

    manager: Any = lm_eval.tasks.TaskManager
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **kwargs: manager(**{**kwargs, "include_defaults": False}))


@pytest.fixture
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent to MLflow, which takes seconds to be imported."""
    ended = "import sys; '--once' in sys.argv or sys.stdin.read()"
    monkeypatch.setattr("workflows.local.shipping.COMMAND", ("-c", ended))


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    """What `argosy` starts in this process begins with all imports done."""
    from tests.warm import SUBPROCESS

    with mock.patch("workflows.local.process.subprocess", SUBPROCESS), \
            mock.patch("workflows.local.shipping.subprocess", SUBPROCESS):
        yield


@pytest.fixture(scope="module")
def model() -> Any:
    """A small language model with random weights."""
    from tests.evaluation_fixtures import make_language_model

    return make_language_model()


@pytest.fixture
def argosy(capsys: pytest.CaptureFixture[str]) -> Argosy:
    """`argosy` in this process."""
    from workflows.cli import main

    def run(*arguments: str, code: int = 0) -> CaptureResult[str]:
        capsys.readouterr()
        try:
            ended = main(arguments)
        except SystemExit as exit_:
            ended = int(exit_.code or 0)
        assert ended == code
        return capsys.readouterr()

    return run
