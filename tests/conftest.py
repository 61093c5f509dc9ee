"""Fixtures of several folders of tests."""

import os
from typing import Any

import pytest

os.environ["COLUMNS"] = "126"  # tables are as wide as the terminal, which differs from machine to machine

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
