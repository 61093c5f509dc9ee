"""How far each node's directory is, and why a node has to run: read from the store alone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

from argosy.lease import live_holder
from argosy.provenance import DIGITS, differences
from argosy.step_files import ERROR, NODE, OUTPUTS, RUN, read_done
from argosy.storage import read_record


class State(NamedTuple):
    """State of one node, and the reason for people."""

    name: Literal["done", "running", "failed", "pending"]
    reason: str


class Store:
    """The directories below `root`, listed once."""

    def __init__(self, root: str) -> None:
        self._root = root

    def of(self, directory: str, prefix: str, made_from: Mapping[str, Any]) -> State:
        """State of the node that `directory` belongs to; `made_from` says what it would be made from now."""
        if os.path.basename(directory) not in self._names:
            return State("pending", self._why_new(directory, prefix, made_from))
        if read_done(directory) is not None:
            return State("done", "done")
        if holder := live_holder(directory):
            return State("running", f"running: process {holder.pid} on {holder.host}")
        if os.path.exists(f"{directory}/{OUTPUTS}"):
            return State("pending", f"{OUTPUTS} is broken: runs again")
        if error := read_record(f"{directory}/{ERROR}"):
            return State("failed", f"failed before: {error.get('message', '')}")
        run = read_record(f"{directory}/{RUN}")
        if not run:
            return State("pending", self._why_new(directory, prefix, made_from))
        return State("pending", _interrupted(run))

    @cached_property
    def _names(self) -> set[str]:
        try:
            return set(os.listdir(self._root))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    @cached_property
    def _siblings(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            prefix, _, digest = name.rpartition("-")
            if len(digest) == DIGITS:
                found[prefix].append(f"{self._root}/{name}")
        return found

    def _why_new(self, directory: str, prefix: str, made_from: Mapping[str, Any]) -> str:
        others = [path for path in self._siblings.get(prefix, ()) if path != directory]
        for path in sorted(others, key=_written, reverse=True):
            old = read_record(f"{path}/{NODE}")
            if old.get("node") == made_from["node"] and old.get("part") == made_from["part"]:
                changes = differences(old, made_from)
                shown = "; ".join(changes[:4]) + (f"; and {len(changes) - 4} more" if len(changes) > 4 else "")
                return f"{_kind(changes)}: {shown} (was {path})"
        return "never ran"


def _kind(changes: list[str]) -> str:
    return "changed" if all(" -> " not in change for change in changes) else "config changed"


def _written(directory: str) -> float:
    for name in (OUTPUTS, NODE):
        try:
            return os.stat(f"{directory}/{name}").st_mtime
        except OSError:
            continue
    return 0.0


def _interrupted(run: Mapping[str, Any]) -> str:
    attempts = run.get("attempts", 1)
    how = "was killed" if run.get("exit") is None else "was stopped"
    return f"{how} in attempt {attempts}; continues from there"
