"""A store in an object store, for the pods that judge a night and that promote a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from argosy.step_files import OUTPUTS, RUN, TRACKING, read_done
from argosy.storage import read_record
from workflows.argo.handoff import read_handoff
from workflows.argo.profile import Profile
from workflows.argo.remote.mirror import Mirror
from workflows.argo.remote.node import RemoteNode
from workflows.argo.remote.place import place_of
from workflows.argo.remote.records import pull_records
from workflows.argo.remote.upstream import pull_directories
from workflows.nightly.evidence import FOLDER as PROMOTIONS
from workflows.nightly.judged import FOLDER as NIGHTLY

Fetch = Callable[[Iterable[Path]], None]


@contextlib.contextmanager
def judging(profile: Profile, workflow: str) -> Iterator[None]:
    """Before: all records, and the evaluations of the night. After: the judgement, and who was told of it."""
    place = place_of(profile, workflow)
    if place is None:
        yield
        return
    mirror = place.mirror
    pull_records(mirror)
    place.pull()
    pull_directories(mirror, {name: set() for name in _evaluations(place.plan.with_name("night.json"))})
    before = {path.name for path in mirror.root.glob("judge-*") if read_done(path) is not None}
    try:
        yield
    finally:
        for path in mirror.root.glob("judge-*"):
            if path.name not in before:
                RemoteNode(mirror.remote, mirror.root, path.name).push()
        mirror.push(NIGHTLY, place.folder)


def _evaluations(night: Path) -> set[str]:
    pairs = [pair for line in read_record(night).values() for pair in line["pairs"]]
    return {Path(path).name for pair in pairs for path in (*pair["new"], *pair.get("reference_evaluations", ()))}


@contextlib.contextmanager
def reporting(profile: Profile, workflow: str) -> Iterator[None]:
    """Before: the report of the workflow, where there is one."""
    if place := place_of(profile, workflow):
        place.pull()
        found = read_record(place.plan.with_name("report.json")).get("report")
        if not found and place.plan.is_file():
            found = read_handoff(place.plan).report
        if found:
            place.mirror.pull_below(Path(found).name, wanted=lambda name: name.endswith((".html", ".json")))
    yield


@contextlib.contextmanager
def promoting(profile: Profile, workflow: str) -> Iterator[Fetch]:
    """Before: the records of all steps, the comparison, and what is not yet sent of it. After: what was sent, evidence.

    Yields what fetches the results of further steps, such as the evaluations that a gate asks for.
    """
    place = place_of(profile, workflow)
    if place is None:
        yield lambda directories: None
        return
    mirror = place.mirror
    pull_records(mirror)
    place.pull()
    changing = place.pull_spools(ended=False)
    if changing is not None:
        _pull_compared(mirror, Path(read_handoff(place.plan).report).name)
    yield lambda directories: mirror_directories(mirror, directories)
    mirror.push(PROMOTIONS, *(changing or ()))


def mirror_directories(mirror: Mirror, directories: Iterable[Path]) -> None:
    """Fetch the results in steps' directories of the store; what lies elsewhere is not ours to fetch."""
    ours = [path for path in directories if path.parent == mirror.root]
    pull_directories(mirror, {path.name: set() for path in ours})


def _pull_compared(mirror: Mirror, report: str) -> None:
    """The comparison's records, and of what it compares the records, whole spools and configs."""
    if not report:
        return
    mirror.pull_below(report, wanted=lambda name: name.split("/")[-1] in (OUTPUTS, RUN))
    checkpoints = read_record(mirror.root / report / RUN).get("config", {}).get("checkpoints", [])
    names = [Path(path).name for path in checkpoints]
    pull_directories(mirror, {name: set() for name in names})
    mirror.pull_below(*(f"{name}/{TRACKING}" for name in names), wanted=lambda name: not name.endswith(".lock"))
