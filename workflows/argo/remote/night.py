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
from workflows.argo.remote.pods import mirror_of
from workflows.argo.remote.records import folder_of, nodes_of, pull_records, pull_spools
from workflows.argo.remote.upstream import pull_directories
from workflows.nightly.evidence import FOLDER as PROMOTIONS
from workflows.nightly.judged import FOLDER as NIGHTLY

Fetch = Callable[[Iterable[Path]], None]


@contextlib.contextmanager
def judging(profile: Profile, workflow: str) -> Iterator[None]:
    """Before: all records, and the evaluations of the night. After: the judgement, and who was told of it."""
    if not profile.storage.uri:
        yield
        return
    mirror, folder = mirror_of(profile), folder_of(workflow)
    pull_records(mirror)
    mirror.pull_below(folder)
    pull_directories(mirror, {name: set() for name in _evaluations(mirror.root / folder / "night.json")})
    before = {path.name for path in mirror.root.glob("judge-*") if read_done(path) is not None}
    try:
        yield
    finally:
        for path in mirror.root.glob("judge-*"):
            if path.name not in before:
                RemoteNode(mirror.remote, mirror.root, path.name).push()
        mirror.push(NIGHTLY, folder)


def _evaluations(night: Path) -> set[str]:
    pairs = [pair for line in read_record(night).values() for pair in line["pairs"]]
    return {Path(path).name for pair in pairs for path in (*pair["new"], *pair.get("reference_evaluations", ()))}


@contextlib.contextmanager
def reporting(profile: Profile, workflow: str) -> Iterator[None]:
    """Before: the report of the workflow, where there is one."""
    if profile.storage.uri:
        mirror, folder = mirror_of(profile), folder_of(workflow)
        mirror.pull_below(folder)
        found = read_record(mirror.root / folder / "report.json").get("report")
        if not found and (plan := mirror.root / folder / "plan.json").is_file():
            found = read_handoff(plan).report
        if found:
            mirror.pull_below(Path(found).name, wanted=lambda name: name.endswith((".html", ".json")))
    yield


@contextlib.contextmanager
def promoting(profile: Profile, workflow: str) -> Iterator[Fetch]:
    """Before: the records of all steps, the comparison, and what is not yet sent of it. After: what was sent, evidence.

    Yields what fetches the results of further steps, such as the evaluations that a gate asks for.
    """
    if not profile.storage.uri:
        yield lambda directories: None
        return
    mirror, folder = mirror_of(profile), folder_of(workflow)
    pull_records(mirror)
    mirror.pull_below(folder)
    plan = mirror.root / folder / "plan.json"
    changing: list[str] = []
    if plan.is_file():
        changing = pull_spools(mirror, workflow, *nodes_of(plan), ended=False)
        _pull_compared(mirror, Path(read_handoff(plan).report).name)
    yield lambda directories: mirror_directories(mirror, directories)
    mirror.push(PROMOTIONS, *changing)


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
