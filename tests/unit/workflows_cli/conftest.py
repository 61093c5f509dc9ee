"""Each test is in an empty directory, in an environment that names no cluster."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ARGO_NAMESPACE", "ARGOSY_ON", "ARGOSY_PROFILE", "ARGOSY_DEBUG", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
