"""The transfers of each pod between its disk and an object store; none, where the store is a volume."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from argosy.core.errors import Stopped
from argosy.core.nodes.bad import BAD
from argosy.core.step.process import stop_on_signals
from argosy.core.store.files import read_record
from argosy.core.store.step_files import OUTPUTS, RUN, STORE_URI, TRACKING, read_done
from argosy.core.tracking.spool import PIPELINES
from workflows.argo.handoff import FOLDER, read_handoff, report_directory
from workflows.argo.objectstore import records
from workflows.argo.objectstore.files import Remote
from workflows.argo.objectstore.mirror import Mirror, NodeCache, each
from workflows.argo.objectstore.node import Leases, Pusher, RemoteNode
from workflows.argo.profile.profile import Profile
from workflows.argo.profile.settings import amount
from workflows.local.view import RunObserver
from workflows.nightly import PROMOTIONS
from workflows.nightly.announce import FOLDER as NIGHTLY

_UNKNOWN = ("", "0", "-1")  # exit codes of an attempt without one: its pod was deleted, its node is lost
Fetch = Callable[[Iterable[Path]], object]


def mirror_of(profile: Profile) -> Mirror:
    """Make the pod's directory of the store."""
    root = Path(profile.storage.root)
    root.mkdir(parents=True, exist_ok=True)
    os.environ[STORE_URI] = profile.storage.uri  # for what sends to MLflow
    cache = profile.storage.cache
    near = NodeCache(Path(cache.path), int(amount(cache.size))) if cache else None
    return Mirror(Remote(profile.storage.uri, profile.storage.options), root, near)


def of_bucket(transfer: Callable[[Mirror, str], Iterator[None]]
              ) -> Callable[[Profile, str], contextlib.AbstractContextManager[None]]:
    """Make a context of a profile and a workflow that does nothing where the store is a volume: all is there already.

    `transfer`: a generator function of the pod's mirror and the workflow, with a yield between fetching and sending."""

    @contextlib.contextmanager
    def context(profile: Profile, workflow: str) -> Iterator[None]:
        if profile.storage.uri:
            yield from transfer(mirror_of(profile), workflow)
        else:
            yield

    return context


@of_bucket
def planning(mirror: Mirror, workflow: str) -> Iterator[None]:
    """Fetch the records of all steps; then, without an error, send the plan."""
    with _timed(mirror, "records"):
        records.pull_records(mirror)
    yield
    mirror.push(PIPELINES, f"{FOLDER}/{workflow}")


@contextlib.contextmanager
def running(profile: Profile, workflow: str, batch: str) -> Iterator[Sequence[RunObserver]]:
    """Fetch the batch's nodes and what they read; meanwhile and after, send what they make.

    Yields what the runner has to tell of its progress.

    Raises:
        InputError, RemoteError: the store could not be read, or what was made could not be sent."""
    if not profile.storage.uri:
        yield ()
        return
    stop_on_signals()  # until the runner handles them itself
    mirror, folder = mirror_of(profile), f"{FOLDER}/{workflow}"
    try:
        mirror.pull_below(BAD)
        mirror.pull_below(folder, wanted=lambda name: name.endswith(("/plan.json", f"/attempts/{batch}.json")))
        handoff = read_handoff(mirror.root / folder / "plan.json")
        nodes = handoff.of(batch)
        names = [Path(node.dir).name for node in nodes]
        every_s = profile.storage.push_s
        with Leases(mirror.remote, names, f"{workflow}/{batch}", every_s, is_over=last_is_over()) as leases:
            directories = [RemoteNode(mirror.remote, mirror.root, name, leases.check) for name in names]
            with _timed(mirror, f"{len(nodes)} nodes and what they read"):
                each(lambda directory: directory.pull(), directories)
                records.pull_upstream(mirror, nodes)
                others = {Path(directory).name for directory in handoff.directories}.difference(names)
                mirror.pull_below(*others, wanted=lambda name: name.endswith(f"/{RUN}"))  # what they spent
            pusher = Pusher(directories, every_s, lambda: mirror.push(f"{folder}/attempts", BAD))
            pusher.start()
            try:
                yield [pusher]
            finally:
                pusher.finish()
    except Stopped as stopped:
        raise SystemExit(stopped.exit_code) from None


@of_bucket
def concluding(mirror: Mirror, workflow: str) -> Iterator[None]:
    """Fetch the workflow's plan and what its pods had no time to send; then send what changed."""
    mirror.pull_below(f"{FOLDER}/{workflow}")
    changing = records.pull_spools(mirror, workflow)
    yield
    if changing is not None:
        mirror.push(f"{FOLDER}/{workflow}", *changing)


def serving(profile: Profile, place: str) -> None:
    """Fetch a checkpoint for the program that this process becomes; does nothing where the store is a volume."""
    if not profile.storage.uri:
        return
    signal.signal(signal.SIGTERM, lambda *_: os._exit(Stopped.exit_code))  # which a first process passes over
    mirror = mirror_of(profile)
    with _timed(mirror, place):
        records.pull_checkpoint(mirror, place)
    if mirror.near:
        mirror.near.hand_on()


def last_is_over() -> bool:
    """Tell whether the attempt before this one is known to have ended: its pod may be lost, and still run."""
    return os.environ.get("ARGOSY_LAST_EXIT", "") not in _UNKNOWN


@contextlib.contextmanager
def _timed(mirror: Mirror, what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"store: {what} from {mirror.remote.uri} in {time.monotonic() - started:.1f} s", flush=True)


@of_bucket
def judging(mirror: Mirror, workflow: str) -> Iterator[None]:
    """Fetch all records, and the evaluations of the night; then send the judgement and its announcements."""
    folder = f"{FOLDER}/{workflow}"
    records.pull_records(mirror)
    mirror.pull_below(folder)
    night = read_record(mirror.root / folder / "night.json")
    pairs = [pair for line in night.values() for pair in line["pairs"]]
    evaluations = (path for pair in pairs for path in (*pair["new"], *pair.get("reference_evaluations", ())))
    records.pull_directories(mirror, {Path(path).name: set() for path in evaluations})
    before = {path.name for path in mirror.root.glob("regressions-*") if read_done(path) is not None}
    try:
        yield
    finally:
        for path in mirror.root.glob("regressions-*"):
            if path.name not in before:
                RemoteNode(mirror.remote, mirror.root, path.name).push()
        mirror.push(NIGHTLY, folder)


@of_bucket
def reporting(mirror: Mirror, workflow: str) -> Iterator[None]:
    """Fetch the report of the workflow, where there is one."""
    mirror.pull_below(f"{FOLDER}/{workflow}")
    if found := report_directory(mirror.root / FOLDER / workflow):
        mirror.pull_below(Path(found).name, wanted=lambda name: name.endswith(".html"))
    yield


@contextlib.contextmanager
def promoting(profile: Profile, workflow: str) -> Iterator[Fetch]:
    """Fetch all records, the comparison, and spools that are not sent; then send spools and evidence.

    Yields what fetches the results of further steps, such as the evaluations that a gate asks for."""
    if not profile.storage.uri:
        yield lambda directories: None
        return
    mirror, folder = mirror_of(profile), f"{FOLDER}/{workflow}"
    records.pull_records(mirror)
    mirror.pull_below(folder)
    changing = records.pull_spools(mirror, workflow, ended=False)
    report = Path(read_handoff(mirror.root / folder / "plan.json").report).name if changing is not None else ""
    if report:  # its records; of the compared steps the records, whole spools and configs
        mirror.pull_below(report, wanted=lambda name: name.split("/")[-1] in (OUTPUTS, RUN))
        compared = read_record(mirror.root / report / RUN).get("config", {}).get("checkpoints", [])
        names = [Path(path).name for path in compared]
        records.pull_directories(mirror, {name: set() for name in names})
        mirror.pull_below(*(f"{name}/{TRACKING}" for name in names), wanted=lambda name: not name.endswith(".lock"))
    yield lambda directories: records.pull_directories(  # what lies elsewhere is not ours to fetch
        mirror, {path.name: set() for path in directories if path.parent == mirror.root})
    mirror.push(PROMOTIONS, *(changing or ()))
