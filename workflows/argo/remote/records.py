"""Which small files of a store the pods need that run no step: those that plan, and those that end a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from argosy.lease import LEASE
from argosy.provenance import DIGITS
from argosy.step_files import ERROR, NODE, OUTPUTS, RUN, STATE, TRACKING
from argosy.storage import read_record
from argosy.tracking.batches import SHIPPED
from argosy.tracking.records import PIPELINES, SPOOL
from workflows.argo.handoff import FOLDER, read_handoff
from workflows.argo.remote.files import Entry
from workflows.argo.remote.lease import held_for
from workflows.argo.remote.mirror import Mirror
from workflows.argo.remote.parallel import each
from workflows.last_run import FILE as LAST_RUN
from workflows.nightly.judged import FOLDER as NIGHTLY

_OF_STEPS = {OUTPUTS, NODE, RUN, ERROR}
_OF_CHECKPOINTS = {"config.json", "argosy.json"}
_HEAD = 16 * 2**10  # bytes of a spool that say whose it is
_LARGEST_ARTIFACT = 64 * 2**20


def pull_records(mirror: Mirror) -> int:
    """What planning reads of a store: the records of all steps, the configs of checkpoints and pipelines."""
    entries = mirror.remote.list()
    owners = {name.partition("/")[0] for name in entries if "/checkpoints/" in name}
    spools = [name for name in (f"{owner}/{TRACKING}/{SPOOL}" for owner in owners) if name in entries]
    each(lambda name: _pull_head(mirror, name), spools)
    return mirror.pull({name: entry for name, entry in entries.items() if _is_record(name)})


def _is_record(name: str) -> bool:
    path = PurePosixPath(name)
    if path.parts[0] in (PIPELINES, NIGHTLY):
        return not path.name.startswith(".")
    if len(path.parts) == 1:
        return name == LAST_RUN
    if len(path.parts[0].rpartition("-")[2]) != DIGITS:
        return False
    return (len(path.parts) == 2 and path.name in _OF_STEPS) or (
        len(path.parts) == 4 and path.parts[1] == "checkpoints" and path.name in _OF_CHECKPOINTS
    )


def _pull_head(mirror: Mirror, name: str) -> None:
    file = mirror.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(mirror.remote.read(name, end=_HEAD) or b"")
    mirror.note([name])


def pull_spools(
    mirror: Mirror, workflow: str, directories: list[str], pipelines: list[str], *, ended: bool = True
) -> list[str]:
    """What the exit handler needs of a workflow's nodes: the spools that are not sent or not ended, what they name.

    Leases that the workflow's killed pods left are deleted.

    Args:
        ended: the workflow has; else what its own pods hold is another's too.

    Returns:
        The directories that it may change: a node that another workflow is at now is not among them.
    """
    entries: dict[str, Entry] = {}
    each(lambda name: entries.update(mirror.remote.list(name)), directories)
    mirror.pull({name: entry for name, entry in entries.items() if name.endswith(f"{TRACKING}/{SHIPPED}")})
    mirror.pull({name: entry for name, entry in entries.items() if name.endswith(f"/{OUTPUTS}")})
    of_pipelines = [f"{PIPELINES}/{pipeline}" for pipeline in pipelines]
    mirror.pull_below(*of_pipelines)
    leased = [f"{name}/{LEASE}" for name in directories if f"{name}/{LEASE}" in entries]
    left = [path for path in leased if ended and held_for(mirror.remote, path).startswith(f"{workflow}/")]
    mirror.remote.delete(left)
    others = {path.partition("/")[0] for path in leased} - {path.partition("/")[0] for path in left}
    mine = [name for name in directories if name not in others]
    unsent = {name for name in mine if not _is_sent(mirror.root / name, name, entries)}
    mirror.pull({
        name: entry for name, entry in entries.items()
        if name.partition("/")[0] in unsent and _is_tracked(name, entry)
    })  # fmt: skip
    return [f"{name}/{TRACKING}" for name in mine] + of_pipelines


def _is_sent(directory: Path, name: str, entries: Mapping[str, Entry]) -> bool:
    spool = entries.get(f"{name}/{TRACKING}/{SPOOL}")
    shipped = read_record(directory / TRACKING / SHIPPED).values()
    return spool is None or (
        f"{name}/{OUTPUTS}" in entries and any(sent.get("offset") == spool.size for sent in shipped)
    )


def _is_tracked(name: str, entry: Entry) -> bool:
    """The spool and what it may name as artifacts; a name that begins with a dot is a lock or a list."""
    parts = name.split("/")
    small = parts[1] not in (STATE, "checkpoints") and entry.size <= _LARGEST_ARTIFACT
    return small and not parts[-1].startswith(".")


def nodes_of(plan: Path) -> tuple[list[str], list[str]]:
    """Directories of the nodes of a handed-over plan, and the digests of its pipeline runs."""
    handoff = read_handoff(plan)
    return [Path(node["dir"]).name for node in handoff.nodes.values()], list(handoff.pipelines)


def folder_of(workflow: str) -> str:
    """Where a workflow's plan is, below the store."""
    return f"{FOLDER}/{workflow}"
