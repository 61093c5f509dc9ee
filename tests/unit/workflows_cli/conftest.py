"""Each test is in an empty directory, in an environment that names no cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.argo_api import Api, kubeconfig, serving


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ARGO_NAMESPACE", "ARGOSY_ON", "ARGOSY_PROFILE", "ARGOSY_DEBUG", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster, which the command line finds in its environment."""
    with serving(Api()) as found:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, found.url)))
        yield found
