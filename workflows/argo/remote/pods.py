"""What each pod does about a store in an object store; nothing, where the store is a volume."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from argosy.environment import stop_on_signals
from argosy.errors import Stopped
from argosy.tracking.records import PIPELINES
from workflows.argo.handoff import read_handoff
from workflows.argo.profile import Profile
from workflows.argo.remote.lease import Leases
from workflows.argo.remote.mirror import Mirror
from workflows.argo.remote.node import RemoteNode
from workflows.argo.remote.parallel import each
from workflows.argo.remote.place import Place, mirror_of, place_of
from workflows.argo.remote.pusher import Pusher
from workflows.argo.remote.records import pull_records
from workflows.argo.remote.upstream import pull_upstream
from workflows.local.observer import RunObserver

_UNKNOWN = ("", "0", "-1")  # exit codes of an attempt without one: its pod was deleted, its node is lost


@contextlib.contextmanager
def planning(profile: Profile, workflow: str) -> Iterator[None]:
    """Before: the records of all steps are here. After, without an error: the plan is in the store."""
    place = place_of(profile, workflow)
    if place is None:
        yield
        return
    with _told(place.mirror, "records"):
        pull_records(place.mirror)
    yield
    place.mirror.push(PIPELINES, place.folder)


@contextlib.contextmanager
def running(profile: Profile, workflow: str, batch: str) -> Iterator[Sequence[RunObserver]]:
    """Before: the batch's nodes and what they read are here. Meanwhile and after: what they make goes to the store.

    Yields what the runner has to tell of its progress.

    Raises:
        InputError, RemoteError: the store could not be read, or what was made could not be sent.
    """
    if not profile.storage.uri:
        yield ()
        return
    stop_on_signals()  # until the runner handles them itself
    place = Place(mirror_of(profile), workflow)
    mirror = place.mirror
    try:
        place.pull(lambda name: name.endswith(("/plan.json", f"/attempts/{batch}.json")))
        nodes = read_handoff(place.plan).of(batch)
        names = [Path(node.dir).name for node in nodes]
        every_s = profile.storage.push_s
        with Leases(mirror.remote, names, f"{workflow}/{batch}", every_s, is_over=last_is_over()) as leases:
            directories = [RemoteNode(mirror.remote, mirror.root, name, leases.check) for name in names]
            with _told(mirror, f"{len(nodes)} nodes and what they read"):
                each(lambda directory: directory.pull(), directories)
                pull_upstream(mirror, nodes)
            pusher = Pusher(directories, every_s, lambda: mirror.push(f"{place.folder}/attempts"))
            pusher.start()
            try:
                yield [pusher]
            finally:
                pusher.finish()
    except Stopped as stopped:
        raise SystemExit(stopped.exit_code) from None


@contextlib.contextmanager
def concluding(profile: Profile, workflow: str) -> Iterator[None]:
    """Before: the workflow's plan and what its pods had no time to send are here. After: what changed is there."""
    place = place_of(profile, workflow)
    if place is None:
        yield
        return
    place.pull()
    changing = place.pull_spools()
    yield
    if changing is not None:
        place.mirror.push(place.folder, *changing)


def last_is_over() -> bool:
    """Whether the attempt before this one is known to have ended: its pod may be lost, and still run."""
    return os.environ.get("ARGOSY_LAST_EXIT", "") not in _UNKNOWN


@contextlib.contextmanager
def _told(mirror: Mirror, what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"store: {what} from {mirror.remote.uri} in {time.monotonic() - started:.1f} s", flush=True)
