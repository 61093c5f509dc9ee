"""Ends of workflows, as MLflow is told them: by the exit handler, with metrics that pods had no time to send, and by
the reconciler, where that could not: of workflows that were terminated, deleted, cut off."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from argosy.core.errors import ArgosyError
from argosy.core.nodes.bad import NODES
from argosy.core.step.ranks.launcher import end_groups
from argosy.core.store.files import read_record, write_json
from argosy.core.store.lease import live_holder, stale_after
from argosy.core.store.step_files import TRACKING, parts_to_retry, read_done
from argosy.core.tracking.tracker import end_run
from workflows.argo.handoff import FOLDER, WEBHOOK, read_handoff
from workflows.argo.objectstore.pods import concluding, mirror_of
from workflows.argo.objectstore.records import pull_spools
from workflows.argo.pod.nodes import TOLD, follow, tell
from workflows.argo.pod.serving import roll
from workflows.argo.profile.profile import Profile
from workflows.local.shipping import PipelineTracker, ship
from workflows.stored.events import watch_events

if TYPE_CHECKING:
    from workflows.argo.client.api import ArgoClient

PLAN = "plan.json"
CONCLUDED = "concluded.json"  # how it ended is known
FINISHED = "finished.json"  # and MLflow was told
KILLED = "KILLED"  # stopped, terminated, deleted
STATUS = {"Succeeded": "FINISHED", "Failed": "FAILED", "Error": "FAILED"}
_NOTES = (PLAN, CONCLUDED, FINISHED)


def finish(profile: Profile, arguments: argparse.Namespace) -> int:
    """Note how the workflow ended, by `arguments.status` and ARGOSY_STOPPED, and send what is left; return 0."""
    with concluding(profile, arguments.workflow):
        plan = Path(profile.storage.root) / FOLDER / arguments.workflow / PLAN
        if plan.is_file():
            stopped = os.environ.get("ARGOSY_STOPPED") == "true"
            conclude(plan, final_status(arguments.status, stopped=stopped) or KILLED)
        else:
            print("nothing was started: the plan failed, or there was nothing to do")
    return 0


def final_status(phase: str, *, stopped: bool) -> str | None:
    """Map a phase of Argo's to the workflow's status in MLflow; None while it goes on."""
    return KILLED if stopped and phase in STATUS and phase != "Succeeded" else STATUS.get(phase)


def conclude(path: Path, status: str) -> None:
    """Give the pipeline's run its final status, and killed nodes, which had no time to, theirs; end their pods.

    Both the exit handler and the reconciler end here. What MLflow does not take stays, and the reconciler sends it."""
    handoff = read_handoff(path)
    deadline = time.monotonic() + stale_after() + 1
    for node in handoff.nodes.values():
        directory = Path(node["dir"])
        done = read_done(directory)
        finished = done and not parts_to_retry(done)
        if not (directory / TRACKING).is_dir() or finished:
            continue
        while (holder := live_holder(directory)) and time.monotonic() <= deadline:
            time.sleep(0.5)  # a pod that was just killed looks alive for a while
        if not holder:  # else another workflow runs this node
            end_run(directory / TRACKING, "FINISHED" if done else KILLED)
            if node.get("resources", {}).get("nodes", 1) > 1:
                end_groups(directory)
    for pipeline, line in handoff.pipelines.items():
        PipelineTracker(Path(handoff.store), pipeline, line).finish(status)
    print(f"{path.parent.name}: {status}", flush=True)
    write_json(path.parent / CONCLUDED, {"status": status})
    if ship(handoff.store):
        write_json(path.parent / FINISHED, {"status": status})


def folders(store: Path) -> list[Path]:
    """List the folders of all workflows, called as they are, the oldest first."""
    found = [path.parent for path in (store / FOLDER).glob(f"*/{PLAN}")]
    return sorted(found, key=lambda folder: (folder / PLAN).stat().st_mtime)


def _pipelines(folder: Path) -> set[str]:
    record = read_record(folder / PLAN)
    return {str(record.get("pipeline", "")), *record.get("also", {})}


class Reconciler:
    """A watcher of workflows that tells MLflow how they ended.

    Args:
        client: to the workflows of a namespace; it is asked to list and get them, and nothing else.
        cluster: whose workflows are looked at; those of others in the same store are theirs.
        keep_s: seconds after which the folder of a workflow that is gone is removed."""

    def __init__(self, store: Path, client: "ArgoClient", keep_s: float, cluster: str = "") -> None:
        self._store, self._client, self._keep_s, self._cluster = store, client, keep_s, cluster
        self._reported = set[str]()

    def sweep(self) -> int:
        """Look at every folder; return how many MLflow did not take. Raises ApiError."""
        known = folders(self._store)  # before asking: one that appears later has a workflow that is not asked for
        phases = self._client.phases() if known else {}
        left = sum(not self._try(folder, phases.get(folder.name), known) for folder in known)
        tell(self._store, os.environ.get(WEBHOOK, "").strip())
        return left

    def _try(self, folder: Path, phase: str | None, known: Sequence[Path]) -> bool:
        """Reconcile one folder; an error is told once, and holds up no other folder."""
        record, ours = read_record(folder / PLAN), (self._client.namespace, self._cluster)
        theirs = record.get("namespace") or ours[0], record.get("cluster", self._cluster)
        try:
            return theirs != ours or self._one(folder, phase, known)
        except (ArgosyError, OSError, ValueError) as error:
            if folder.name not in self._reported:
                print(f"reconcile: {folder.name}: {error}; it is left as it is", file=sys.stderr, flush=True)
                self._reported.add(folder.name)
            return True

    def _one(self, folder: Path, phase: str | None, known: Sequence[Path]) -> bool:
        """Reconcile one folder, whose workflow is in a phase, or gone; return whether nothing is left to be done."""
        if phase is not None and phase not in STATUS:  # it goes on; after `argo retry`, to end again
            for path in (folder / FINISHED, folder / CONCLUDED):
                path.unlink(missing_ok=True)
            return True
        if (folder / FINISHED).exists():
            if phase is None and time.time() - (folder / FINISHED).stat().st_mtime > self._keep_s:
                shutil.rmtree(folder, ignore_errors=True)
            return True
        if phase is None:  # deleted; its own exit handler may have known how it ended
            return self._conclude(folder, read_record(folder / CONCLUDED).get("status") or KILLED, known)
        shutdown = (self._client.get(folder.name).get("spec") or {}).get("shutdown")
        status = final_status(phase, stopped=shutdown in ("Stop", "Terminate"))
        return self._conclude(folder, status or KILLED, known)

    def _conclude(self, folder: Path, status: str, known: Sequence[Path]) -> bool:
        later = next((each for each in known[known.index(folder) + 1:] if _pipelines(each) & _pipelines(folder)), None)
        if later is not None:  # the same work was submitted again: that one says how it ended
            write_json(folder / FINISHED, {"status": status, "superseded": later.name})
            return True
        conclude(folder / PLAN, status)
        return (folder / FINISHED).exists()


class RemoteReconciler(Reconciler):
    """A reconciler that fetches the folders for each look, and the spools of a workflow to be concluded."""

    def __init__(self, profile: Profile, client: "ArgoClient", keep_s: float) -> None:
        self._mirror = mirror_of(profile)
        super().__init__(self._mirror.root, client, keep_s, profile.cluster)
        self._profile = profile

    def sweep(self) -> int:
        """Sweep a copy; what was removed or written is so in the object store after it."""
        shutil.rmtree(self._mirror.root, ignore_errors=True)
        self._mirror = mirror = mirror_of(self._profile)
        entries = mirror.remote.list(FOLDER)
        notes = {name: entry for name, entry in entries.items() if PurePosixPath(name).name in _NOTES}
        mirror.pull(notes)
        mirror.pull_below(NODES)
        try:
            return super().sweep()
        finally:
            mirror.push(FOLDER, TOLD)
            planned = {path.parent.name for path in map(PurePosixPath, notes) if path.name == PLAN}
            gone = planned - {path.name for path in (mirror.root / FOLDER).glob("*")}  # not what is being planned now
            mirror.remote.delete(
                name for name in entries
                if PurePosixPath(name).parts[1] in gone or (name in notes and not (mirror.root / name).exists())
            )  # fmt: skip

    def _conclude(self, folder: Path, status: str, known: Sequence[Path]) -> bool:
        changing = pull_spools(self._mirror, folder.name)
        concluded = super()._conclude(folder, status, known)
        self._mirror.push(*(changing or ()))
        return concluded


def reconcile(profile: Profile, arguments: argparse.Namespace) -> int:
    """Reconcile; return 1 where something is left (with --once), 143 when stopped."""
    from workflows.argo.client.api import connect

    if profile.watches_store:
        watch_events(Path(profile.storage.root))
    client = connect(profile.namespace)
    keep = max(profile.keep.success_s, profile.keep.failure_s)
    reconciler = (RemoteReconciler(profile, client, keep) if profile.storage.uri
                  else Reconciler(Path(profile.storage.root), client, keep, profile.cluster))  # fmt: skip

    def look() -> int:
        left = reconciler.sweep()
        if profile.serving:
            roll(profile, profile.serving, client.transport)
        return left

    return follow("reconcile", look, once=arguments.once)
