"""The state of each node's directory, and why a node has to run: read from the store alone."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

from argosy.core.config.explain import first_of
from argosy.core.step.retry import parts_to_retry
from argosy.core.store.files import read_record
from argosy.core.store.lease import live_holder
from argosy.core.store.provenance import DIGITS, differences
from argosy.core.store.step_files import ERROR, NODE, OUTPUTS, RUN, cut_file, read_whole

NEVER = "never ran"


class State(NamedTuple):
    """The state of one node, and the reason for people."""

    name: Literal["done", "running", "failed", "pending"]
    reason: str


class Store:
    """The directories below `root`, listed once."""

    def __init__(self, root: str) -> None:
        self._root = root

    def of(self, directory: str, prefix: str, made_from: Mapping[str, Any]) -> State:
        """Read the state of the node that `directory` belongs to; `made_from` is its record as of now."""
        if os.path.basename(directory) not in self._names:
            return State("pending", self._why_new(directory, prefix, made_from))
        return state_of(directory) or State("pending", self._why_new(directory, prefix, made_from))

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
        """Compare with the newest finished directory of that node; without one, with the newest."""
        others = [path for path in self._siblings.get(prefix, ()) if path != directory]
        for path in sorted(others, key=_rank, reverse=True):
            old = read_record(f"{path}/{NODE}")
            if old.get("node") == made_from["node"] and old.get("part") == made_from["part"]:
                changes = differences(old, made_from)
                unfinished = "" if _rank(path)[0] else ", which did not finish"
                kind = "config changed: " if any(" -> " in change for change in changes) else ""
                return f"{kind}{first_of(changes, 4, '; ')} (was {path}{unfinished})"
        return NEVER


def state_of(directory: str) -> State | None:
    """Read the state of a step's directory; None where nothing has begun there."""
    done = read_whole(directory)
    if done is not None and not (again := parts_to_retry(done)):
        return State("done", "done")
    if holder := live_holder(directory):
        return State("running", f"running: process {holder.pid} on {holder.host}")
    if done is not None:
        last = read_record(f"{directory}/{ERROR}").get("message")
        in_vain = f" (last time: {last})" if last else ""
        return State("pending", f"done, but failed in part: {', '.join(again)}; retried{in_vain}")
    if os.path.exists(f"{directory}/{OUTPUTS}"):
        cut = cut_file(directory, read_record(f"{directory}/{OUTPUTS}"))
        return State("pending", f"{cut or f'{OUTPUTS} is broken'}: the step runs again")
    if error := read_record(f"{directory}/{ERROR}"):
        return State("failed", f"failed before: {error.get('message', '')}")
    run = read_record(f"{directory}/{RUN}")
    how = "was killed" if run.get("exit") is None else "was stopped"
    return State("pending", f"{how} in attempt {run.get('attempts', 1)}; continues from there") if run else None


def blocked_by(upstream: Mapping[str, Iterable[str]], failed: Collection[str]) -> dict[str, str]:
    """Find the ids that wait for a failed one, and for which. upstream: dependencies of each id; without cycles."""

    @cache
    def cause(key: str) -> str | None:
        found = (each if each in failed else cause(each) for each in upstream.get(key, ()))
        return next((each for each in found if each), None)

    return {key: found for key in upstream if (found := cause(key))}


def _rank(directory: str) -> tuple[bool, float]:
    """Rank a directory by whether it is finished, and when it was."""
    for name in (OUTPUTS, NODE):
        try:
            return name == OUTPUTS, os.stat(f"{directory}/{name}").st_mtime
        except OSError:
            continue
    return False, 0.0
