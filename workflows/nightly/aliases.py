"""MLflow as the nightly evaluation sees it: the checkpoints that it knows, and what an alias names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from argosy.tracking.registry import Known, Registry, Version
from argosy.tracking.server import DATABASE, Server, tracking_uri


class Aliases(Protocol):
    """Raises Unavailable where MLflow does not answer."""

    def checkpoints(self) -> list[Known]:
        """Checkpoints of every model line."""
        ...

    def at(self, model: str, alias: str) -> Version | None:
        """What an alias names."""
        ...


def aliases_of(store: Path, uri: str = "") -> Registry | None:
    """Those of the configured server, or of the store's own database; None where there is neither."""
    if not uri and not os.environ.get("MLFLOW_TRACKING_URI") and not (store / DATABASE).is_file():
        return None
    return Registry(Server(tracking_uri(store, uri), store))
