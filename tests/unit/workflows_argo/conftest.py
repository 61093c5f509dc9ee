"""A bucket of its own for each test that wants one, on one server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_store import BUCKET, s3_server


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
