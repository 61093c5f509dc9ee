"""A pod's part of a store in an object store, and the folder of its workflow there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from argosy.tracking.server import STORE_URI
from workflows.argo.profile import Profile
from workflows.argo.remote.files import Remote
from workflows.argo.remote.mirror import Mirror
from workflows.argo.remote.records import folder_of, nodes_of, pull_spools


@dataclass(frozen=True)
class Place:
    """The mirror of the store, and whose pod asks."""

    mirror: Mirror
    workflow: str

    @property
    def folder(self) -> str:
        """Of the workflow, below the store."""
        return folder_of(self.workflow)

    @property
    def plan(self) -> Path:
        """What the plan handed over, once it is pulled."""
        return self.mirror.root / self.folder / "plan.json"

    def pull(self, wanted: Callable[[str], bool] = lambda name: True) -> None:
        """The workflow's folder."""
        self.mirror.pull_below(self.folder, wanted=wanted)

    def pull_spools(self, *, ended: bool = True) -> list[str] | None:
        """See `records.pull_spools`, of the plan's nodes; None without a plan."""
        if not self.plan.is_file():
            return None
        return pull_spools(self.mirror, self.workflow, *nodes_of(self.plan), ended=ended)


def place_of(profile: Profile, workflow: str) -> Place | None:
    """None where the store is a volume: then everything is there already."""
    return Place(mirror_of(profile), workflow) if profile.storage.uri else None


def mirror_of(profile: Profile) -> Mirror:
    """The pod's directory of the store."""
    root = Path(profile.storage.root)
    root.mkdir(parents=True, exist_ok=True)
    os.environ[STORE_URI] = profile.storage.uri  # for what sends to MLflow
    return Mirror(Remote(profile.storage.uri, profile.storage.options), root)
