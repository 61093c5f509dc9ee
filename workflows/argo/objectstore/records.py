"""The files of a store that a pod fetches: records for those that plan or end, results for those that run."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from argosy.core.config.schema import Role
from argosy.core.errors import InputError
from argosy.core.nodes.bad import NODES
from argosy.core.store.files import parse_object, read_record
from argosy.core.store.lease import LEASE
from argosy.core.store.provenance import DIGITS
from argosy.core.store.step_files import ERROR, LOG, NODE, OUTPUTS, RUN, STATE, TRACKING
from argosy.core.tracking.ship import SHIPPED
from argosy.core.tracking.spool import PIPELINES, SPOOL
from argosy.model.weights.adapters.files import BASE, base_path
from workflows.argo.handoff import FOLDER, read_handoff
from workflows.argo.objectstore.files import Entry, Remote
from workflows.argo.objectstore.mirror import SMALL, Mirror, each
from workflows.argo.objectstore.node import whole
from workflows.graph import definition
from workflows.nightly.announce import FOLDER as NIGHTLY
from workflows.plan import PlannedNode
from workflows.stored.last_run import FILE as LAST_RUN

ALL, FINAL = "*", "final"
_CHECKPOINTS = "checkpoints"
_HEAD = 16 * 2**10  # bytes of a spool that say whose it is
_LARGEST_ARTIFACT = 64 * 2**20


def pull_upstream(mirror: Mirror, nodes: Sequence[PlannedNode]) -> None:
    """Fetch the results that `nodes` read of others, each directory once."""
    exports: dict[str, set[str]] = {}
    for node in nodes:
        step = definition(node.step)
        config: dict[str, Any] = json.loads(node.config)
        loaded = set() if step.needs == "data" else {config.get("export") or FINAL}
        for value in (config.get(field) or () for field in step.config.fields_with(Role.UPSTREAM)):
            for path in (value,) if isinstance(value, str) else value:
                below = os.path.relpath(path, mirror.root)
                if not below.startswith(".."):
                    exports.setdefault(below.split("/")[0], set()).update(loaded)
    for node in nodes:
        exports.pop(Path(node.dir).name, None)
    pull_directories(mirror, exports)
    _pull_beside(mirror, exports)
    # The records of what those were trained from: there a branch's curve begins in MLflow.
    bases = [Path(read_record(mirror.root / name / RUN).get("config", {}).get("checkpoint") or "") for name in exports]
    own = {path.name for path in bases if path.parent == mirror.root}
    mirror.pull_below(*own, wanted=_is_record)


def pull_directories(mirror: Mirror, exports: Mapping[str, set[str]]) -> None:
    """Fetch results in steps' directories, with the given exports of their checkpoints."""
    entries: dict[str, Entry] = {}
    each(lambda name: entries.update(_entries(mirror.remote, name, exports[name])), exports)
    mirror.pull(entries, results=True)


def pull_checkpoint(mirror: Mirror, place: str) -> None:
    """Fetch the checkpoint at a path of the store, and those beside which it is loaded. Raises InputError: it is not
    there, or its finished step lacks a file."""
    if mirror.remote.entry(f"{place}/config.json") is None:
        raise InputError(f"{mirror.remote.uri}/{place} is no checkpoint: it has no config.json; bring it back, or move "
                         "the alias ('argosy promote')")
    step = place.partition("/")[0]
    pull_directories(mirror, {step: {PurePosixPath(place).name}})
    _pull_beside(mirror, [step])


def _pull_beside(mirror: Mirror, names: Iterable[str]) -> None:
    """Fetch the checkpoints beside which adapters among those of `names` are loaded, and theirs in turn."""
    found: dict[str, set[str]] = {}
    for file in (file for name in names for file in (mirror.root / name).glob(f"{_CHECKPOINTS}/*/{BASE}")):
        base = base_path(file.parent)
        if base.parents[2] == mirror.root.resolve():
            found.setdefault(base.parents[1].name, set()).add(base.name)
    if found:
        pull_directories(mirror, found)
        _pull_beside(mirror, found)


def _entries(remote: Remote, name: str, exports: set[str]) -> dict[str, Entry]:
    found, listed = whole(remote, name)
    outputs = json.loads(remote.read(f"{name}/{OUTPUTS}") or b"{}").get("outputs", {})
    paths = {entry["name"]: os.path.normpath(entry["path"]) for entry in outputs.get("exports", ())}
    if FINAL not in paths and outputs.get("final"):
        paths[FINAL] = os.path.normpath(outputs["final"])
    if not outputs:  # it still trains
        paths = {export: f"{_CHECKPOINTS}/{export}" for export in exports}
    folders = {paths.get(export, ALL) for export in exports}  # ALL where the step's outputs do not say

    def is_wanted(path: str) -> bool:
        first, _, rest = path.partition("/")
        if first in (STATE, TRACKING, LOG):
            return False
        in_time = first != _CHECKPOINTS or found[path].size <= SMALL  # its configs, whoever looks at them
        return in_time or ALL in folders or f"{first}/{rest.partition('/')[0]}" in folders

    return {f"{name}/{path}": e for path, e in found.items() if (path in listed or path == OUTPUTS or "/" not in path)
            and is_wanted(path)}  # fmt: skip


def pull_records(mirror: Mirror) -> None:
    """Fetch what planning reads of a store: the records of all steps, the configs of checkpoints and pipelines."""
    entries = mirror.remote.list()
    owners = {name.partition("/")[0] for name in entries if "/checkpoints/" in name}

    def pull_head(name: str) -> None:
        file = mirror.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(mirror.remote.read(name, end=_HEAD) or b"")
        mirror.note([name])

    each(pull_head, [name for name in (f"{owner}/{TRACKING}/{SPOOL}" for owner in owners) if name in entries])
    mirror.pull({name: entry for name, entry in entries.items() if _is_record(name)})


def _is_record(name: str) -> bool:
    path = PurePosixPath(name)
    if path.parts[0] in (PIPELINES, NIGHTLY, NODES):
        return not path.name.startswith(".")
    if len(path.parts) == 1:
        return name == LAST_RUN
    if len(path.parts[0].rpartition("-")[2]) != DIGITS:
        return False
    return (len(path.parts) == 2 and path.name in {OUTPUTS, NODE, RUN, ERROR}) or (
        len(path.parts) == 4 and path.parts[1] == "checkpoints" and path.name in {"config.json", "argosy.json"})


def pull_spools(mirror: Mirror, workflow: str, *, ended: bool = True) -> list[str] | None:
    """Fetch the spools of a workflow's nodes that are not sent or not ended, and the artifacts that they name.

    Leases that the workflow's killed pods left are deleted.

    Args:
        ended: the workflow has; else what its own pods hold is another's too.

    Returns:
        The directories that it may change: a node that another workflow is running is not among them. None where no
        plan was handed over."""
    plan = mirror.root / FOLDER / workflow / "plan.json"
    if not plan.is_file():
        return None
    handoff = read_handoff(plan)
    directories = [Path(node["dir"]).name for node in handoff.nodes.values()]
    entries: dict[str, Entry] = {}
    each(lambda name: entries.update(mirror.remote.list(name)), directories)
    ends = (f"{TRACKING}/{SHIPPED}", f"/{OUTPUTS}")
    mirror.pull({name: entry for name, entry in entries.items() if name.endswith(ends)})
    of_pipelines = [f"{PIPELINES}/{pipeline}" for pipeline in handoff.pipelines]
    mirror.pull_below(*of_pipelines)
    leased = [f"{name}/{LEASE}" for name in directories if f"{name}/{LEASE}" in entries]
    owners = {path: parse_object(mirror.remote.read(path) or b"").get("owner", "") for path in leased if ended}
    left = [path for path, owner in owners.items() if owner.startswith(f"{workflow}/")]
    mirror.remote.delete(left)
    others = {path.partition("/")[0] for path in leased} - {path.partition("/")[0] for path in left}
    mine = [name for name in directories if name not in others]
    unsent = {name for name in mine if not _is_sent(mirror.root / name, name, entries)}
    mirror.pull({name: e for name, e in entries.items() if name.split("/")[0] in unsent and _is_tracked(name, e)})
    return [f"{name}/{TRACKING}" for name in mine] + of_pipelines


def _is_sent(directory: Path, name: str, entries: Mapping[str, Entry]) -> bool:
    spool = entries.get(f"{name}/{TRACKING}/{SPOOL}")
    shipped = read_record(directory / TRACKING / SHIPPED).values()
    return spool is None or (
        f"{name}/{OUTPUTS}" in entries and any(sent.get("offset") == spool.size for sent in shipped))


def _is_tracked(name: str, entry: Entry) -> bool:
    """Tell whether it is a spool or may be an artifact; a name that begins with a dot is a lock or a list."""
    parts = name.split("/")
    small = parts[1] not in (STATE, "checkpoints") and entry.size <= _LARGEST_ARTIFACT
    return small and not parts[-1].startswith(".")
