"""The reconciler: it tells MLflow how workflows ended whose exit handler could not: terminated, deleted, cut off."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from argosy.core.errors import ArgosyError, Stopped
from argosy.core.step.process import stop_on_signals
from argosy.core.store.files import read_record, write_json
from workflows.argo.client.transport import Json, Transport
from workflows.argo.handoff import FOLDER
from workflows.argo.objectstore.pods import mirror_of
from workflows.argo.objectstore.records import nodes_of, pull_spools
from workflows.argo.pod.finish import CONCLUDED, FINISHED, KILLED, conclude, final_status
from workflows.argo.profile.profile import Profile

WATCH_S = 300  # of one watch; then all is looked at again
SILENCE_S = WATCH_S + 30  # a watch that is silent for longer has lost its connection
BACK_OFF_S = (1.0, 60.0)
_NOTES = ("plan.json", CONCLUDED, FINISHED)


@dataclass(frozen=True)
class Folder:
    """The folder of one workflow in the store."""

    path: Path

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self.path.name

    @property
    def plan(self) -> Path:
        """The plan, written when it was made."""
        return self.path / "plan.json"

    @property
    def finished(self) -> Path:
        """The final status, written when MLflow was told."""
        return self.path / FINISHED

    @property
    def pipelines(self) -> set[str]:
        """Its pipeline runs."""
        record = read_record(self.plan)
        return {str(record.get("pipeline", "")), *record.get("also", {})}

    def is_of(self, namespace: str, cluster: str) -> bool:
        """Tell whether it was planned there; also where the plan does not say."""
        record = read_record(self.plan)
        return (record.get("namespace") or namespace) == namespace and record.get("cluster", cluster) == cluster


def folders(store: Path) -> list[Folder]:
    """List the folders of all workflows, the oldest first."""
    found = [Folder(path.parent) for path in (store / FOLDER).glob("*/plan.json")]
    return sorted(found, key=lambda folder: folder.plan.stat().st_mtime)


def status_of(workflow: Mapping[str, Any] | None) -> str | None:
    """Return FINISHED, FAILED or KILLED; None while it goes on. A workflow that is gone was deleted."""
    if workflow is None:
        return KILLED
    stopped = (workflow.get("spec") or {}).get("shutdown") in ("Stop", "Terminate")
    return final_status((workflow.get("status") or {}).get("phase", ""), stopped=stopped)


class Reconciler:
    """A watcher of workflows that tells MLflow how they ended.

    Args:
        transport: to the API server; it is asked to get, list and watch workflows, and nothing else.
        namespace, cluster: whose workflows are looked at; those of others in the same store are theirs.
        keep_s: seconds after which the folder of a workflow that is gone is removed."""

    def __init__(self, store: Path, transport: Transport, namespace: str, keep_s: float, cluster: str = "") -> None:
        self._store, self._transport, self._keep_s = store, transport, keep_s
        self._namespace, self._cluster, self._reported = namespace, cluster, set[str]()
        self._path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
        self._version = ""

    def sweep(self) -> int:
        """Look at every folder; return how many MLflow did not take. Raises ApiError."""
        known = folders(self._store)  # before asking: one that appears later has a workflow that is not asked for
        workflows = self._list() if known else {}
        return sum(not self._try(folder, workflows.get(folder.name), known) for folder in known)

    def follow(self, sleep: Callable[[float], None] = time.sleep, forever: Callable[[], bool] = lambda: True) -> None:
        """Sweep, then watch, and again; an API server that does not answer is asked again after 1, 2, ... 60 s."""
        pause = 0.0
        while forever():
            try:
                left = self.sweep()
                pause = 0.0
                if left:
                    sleep(BACK_OFF_S[1])
                else:
                    self._watch()
            except (ArgosyError, OSError, ValueError) as error:
                if not pause:
                    print(f"reconcile: {error}; asked again later", file=sys.stderr, flush=True)
                pause = min(max(2 * pause, BACK_OFF_S[0]), BACK_OFF_S[1])
                sleep(pause)

    def _list(self) -> dict[str, Json]:
        """List all workflows by name, a page at a time."""
        found: dict[str, Json] = {}
        query = {"limit": "500"}
        while True:
            page = self._transport.ask("GET", self._path, query=query)
            found.update({each["metadata"]["name"]: each for each in page.get("items", [])})
            metadata = page.get("metadata") or {}
            self._version = metadata.get("resourceVersion", "")
            if not metadata.get("continue"):
                return found
            query["continue"] = metadata["continue"]

    def _watch(self) -> None:
        """Watch until a workflow has ended or is gone, or the watch has."""
        query = {"watch": "1", "timeoutSeconds": str(WATCH_S), "allowWatchBookmarks": "true"}
        query |= {"resourceVersion": self._version} if self._version else {}
        for line in self._transport.stream(self._path, query, follow=True, silence_s=SILENCE_S):
            if not line.strip():
                continue
            event = json.loads(line)
            if event.get("type") == "ERROR":
                return  # the version is too old, say: list again
            workflow = None if event.get("type") == "DELETED" else event.get("object") or {}
            if event.get("type") != "BOOKMARK" and status_of(workflow) is not None:
                return

    def _try(self, folder: Folder, workflow: Json | None, known: Sequence[Folder]) -> bool:
        """Reconcile one folder; an error is told once, and holds up no other folder."""
        try:
            return not folder.is_of(self._namespace, self._cluster) or self._one(folder, workflow, known)
        except (ArgosyError, OSError, ValueError) as error:
            if folder.name not in self._reported:
                print(f"reconcile: {folder.name}: {error}; it is left as it is", file=sys.stderr, flush=True)
                self._reported.add(folder.name)
            return True

    def _one(self, folder: Folder, workflow: Json | None, known: Sequence[Folder]) -> bool:
        """Reconcile one folder; return whether nothing is left to be done for it."""
        status = status_of(workflow)
        if workflow is not None and status is None:  # it goes on; after `argo retry`, to end again
            for path in (folder.finished, folder.path / CONCLUDED):
                path.unlink(missing_ok=True)
            return True
        if folder.finished.exists():
            if workflow is None and time.time() - folder.finished.stat().st_mtime > self._keep_s:
                shutil.rmtree(folder.path, ignore_errors=True)
            return True
        assert status is not None
        if workflow is None and (said := read_record(folder.path / CONCLUDED).get("status")):
            status = said  # its own exit handler knew, and it is gone since
        return self._conclude(folder, status, known)

    def _conclude(self, folder: Folder, status: str, known: Sequence[Folder]) -> bool:
        later = next((each for each in known[known.index(folder) + 1:] if each.pipelines & folder.pipelines), None)
        if later is not None:  # the same work was submitted again: that one says how it ended
            write_json(folder.finished, {"status": status, "superseded": later.name})
            return True
        conclude(folder.plan, status)
        return folder.finished.exists()


class RemoteReconciler(Reconciler):
    """A reconciler that fetches the folders for each look, and the spools of a workflow to be concluded."""

    def __init__(self, profile: Profile, transport: Transport, keep_s: float) -> None:
        self._mirror = mirror_of(profile)
        super().__init__(self._mirror.root, transport, profile.namespace, keep_s, profile.cluster)
        self._profile = profile

    def sweep(self) -> int:
        """Sweep a copy; what was removed or written is so in the object store after it."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whether to look once."""
    parser.add_argument("--once", action="store_true", help="look once, then end")


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Reconcile; return 1 where something is left (with --once), 143 when stopped."""
    from workflows.argo.client.ways import KubernetesTransport

    keep = max(profile.keep.success_s, profile.keep.failure_s)
    if profile.storage.uri:
        reconciler: Reconciler = RemoteReconciler(profile, KubernetesTransport(), keep)
    else:
        store = Path(profile.storage.root)
        reconciler = Reconciler(store, KubernetesTransport(), profile.namespace, keep, profile.cluster)
    if arguments.once:
        return 1 if reconciler.sweep() else 0
    stop_on_signals()
    try:
        reconciler.follow()
    except Stopped as stopped:
        return stopped.exit_code
    return 0
