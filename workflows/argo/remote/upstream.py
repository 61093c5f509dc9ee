"""What a batch needs of the steps before it: their files, but of their checkpoints only those that it loads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.config import Role
from argosy.step_files import LOG, OUTPUTS, STATE, TRACKING
from workflows.argo.remote.files import Entry, Remote
from workflows.argo.remote.mirror import Mirror
from workflows.argo.remote.node import whole
from workflows.argo.remote.parallel import SMALL, each
from workflows.node import definition
from workflows.plan import PlannedNode

ALL, FINAL = "*", "final"
_CHECKPOINTS = "checkpoints"


def pull_upstream(mirror: Mirror, nodes: Sequence[PlannedNode]) -> int:
    """Fetch what `nodes` read of others, each directory once; returns how many bytes."""
    exports: dict[str, set[str]] = {}
    for node in nodes:
        for name, wanted in _read_by(node, mirror.root):
            exports.setdefault(name, set()).update(wanted)
    for node in nodes:
        exports.pop(Path(node.dir).name, None)
    return pull_directories(mirror, exports)


def pull_directories(mirror: Mirror, exports: Mapping[str, set[str]]) -> int:
    """Fetch the results in steps' directories, with the given exports of their checkpoints; returns how many bytes."""
    entries: dict[str, Entry] = {}
    each(lambda name: entries.update(_entries(mirror.remote, name, exports[name])), exports)
    return mirror.pull(entries)


def _read_by(node: PlannedNode, root: Path) -> Iterator[tuple[str, set[str]]]:
    """Directories of the store that the node's config names, and the exports that it loads there."""
    step = definition(node.step)
    config: dict[str, Any] = json.loads(node.config)
    exports = set() if step.needs == "data" else {config.get("export") or FINAL}
    for field in step.config.fields_with(Role.UPSTREAM):
        value = config.get(field) or ()
        for path in (value,) if isinstance(value, str) else value:
            below = os.path.relpath(path, root)
            if not below.startswith(".."):
                yield below.split("/")[0], exports


def _entries(remote: Remote, name: str, exports: set[str]) -> dict[str, Entry]:
    found, listed = whole(remote, name)
    folders = _folders(json.loads(remote.read(f"{name}/{OUTPUTS}") or b"{}"), exports)

    def is_wanted(path: str) -> bool:
        first, _, rest = path.partition("/")
        if first in (STATE, TRACKING, LOG):
            return False
        in_time = first != _CHECKPOINTS or found[path].size <= SMALL  # its configs, whoever looks at them
        return in_time or ALL in folders or f"{first}/{rest.partition('/')[0]}" in folders

    return {f"{name}/{path}": e for path, e in found.items() if (path in listed or path == OUTPUTS or "/" not in path)
            and is_wanted(path)}  # fmt: skip


def _folders(record: dict[str, Any], exports: set[str]) -> set[str]:
    """Paths of those exports; ALL where the step's outputs do not say."""
    outputs = record.get("outputs", {})
    paths = {entry["name"]: os.path.normpath(entry["path"]) for entry in outputs.get("exports", ())}
    if FINAL not in paths and outputs.get("final"):
        paths[FINAL] = os.path.normpath(outputs["final"])
    return {paths.get(name, ALL) for name in exports}
