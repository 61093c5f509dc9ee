"""The reconciler of a store in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import PurePosixPath

from workflows.argo.client_http import Transport
from workflows.argo.handoff import FOLDER
from workflows.argo.pod.finish import CONCLUDED, FINISHED
from workflows.argo.profile import Profile
from workflows.argo.reconcile import Folder, Reconciler
from workflows.argo.remote.place import mirror_of
from workflows.argo.remote.records import nodes_of, pull_spools

_NOTES = ("plan.json", CONCLUDED, FINISHED)


class RemoteReconciler(Reconciler):
    """Fetches the folders of all workflows for each look, and what their nodes logged where one is to be concluded."""

    def __init__(self, profile: Profile, transport: Transport, keep_s: float) -> None:
        self._mirror = mirror_of(profile)
        super().__init__(self._mirror.root, transport, profile.namespace, keep_s, profile.cluster)
        self._profile = profile

    def sweep(self) -> int:
        """As of a store on a volume; what was removed or written is so in the object store after it."""
        shutil.rmtree(self._mirror.root, ignore_errors=True)
        self._mirror = mirror = mirror_of(self._profile)
        entries = mirror.remote.list(FOLDER)
        notes = {name: entry for name, entry in entries.items() if PurePosixPath(name).name in _NOTES}
        mirror.pull(notes)
        try:
            return super().sweep()
        finally:
            mirror.push(FOLDER)
            planned = {path.parent.name for path in map(PurePosixPath, notes) if path.name == "plan.json"}
            gone = planned - {path.name for path in (mirror.root / FOLDER).glob("*")}  # not what is being planned now
            mirror.remote.delete(
                name for name in entries
                if PurePosixPath(name).parts[1] in gone or (name in notes and not (mirror.root / name).exists())
            )  # fmt: skip

    def _conclude(self, folder: Folder, status: str, known: Sequence[Folder]) -> bool:
        changing = pull_spools(self._mirror, folder.name, *nodes_of(folder.plan))
        concluded = super()._conclude(folder, status, known)
        self._mirror.push(*changing)
        return concluded
