"""A bucket of its own for each test that wants one, on one server; and MLflow's sender in this process."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from argosy.core.tracking.__main__ import main
from tests.argo_fixtures import BUCKET, s3_server


@pytest.fixture(scope="session")
def server() -> Iterator[dict[str, str]]:
    """The environment of the server's clients."""
    with s3_server() as environment:
        yield environment


@pytest.fixture
def bucket(server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of an empty store; its credentials are in the environment."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def sent_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a workflow sends in this process: to import MLflow takes a process seconds."""
    monkeypatch.setattr("argosy.core.tracking.__main__.signal", Mock())
    monkeypatch.setattr("workflows.argo.pod.finish.ship", lambda store: main(["ship", "--store", store, "--once"]) == 0)
