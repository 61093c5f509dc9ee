"""Records of nodes that failed, a file for each in the store, for whoever places the next pods."""

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError, InputError
from argosy.core.store.files import make_directory, parse_object, write_json
from argosy.core.store.remote import names_at, read_small, remove

NODES = ".nodes"
BAD = f"{NODES}/bad"  # below the store
NODE_NAME = "ARGOSY_NODE_NAME"  # in pods: the name of their node
_FIELDS = {"node", "time", "cause", "why", "run", "rank"}
OF_ONE_NODE = ("ECC", "NVLink", "Xid", "silent corruption")  # causes; after others a check tells which rank is bad


def node_name() -> str:
    """Name this machine as the cluster does, else by its host name."""
    return os.environ.get(NODE_NAME) or socket.gethostname()


def note_bad(out: Path, why: str, about: dict[str, Any], hosts: Sequence[str]) -> None:
    """Record the nodes whose hardware failed the step in `out`, beside it, and name them in `about`.

    `hosts`: the node of each rank."""
    rank = about.get("rank")
    found = about.get("bad") or ({rank: why} if about.get("cause") in OF_ONE_NODE and rank is not None else {})
    for rank, reason in found.items():
        node = hosts[int(rank)]
        about["nodes"] = [*about.get("nodes", []), node]
        try:
            write_json(make_directory(out.parent / BAD) / f"{node}.json", {
                "node": node, "time": time.time(), "cause": about.get("cause") or "node", "why": reason,
                "run": out.name, "rank": int(rank), "measured": about.get("measured", {}).get(rank, {})})
        except (ArgosyError, OSError) as error:
            print(f"warning: that node {node} is bad was not recorded: {error}", flush=True)


def bad_nodes(store: Path | str, seconds: float = inf) -> list[dict[str, Any]]:
    """Read the records of a store, a directory or a URI, that are younger than `seconds`, the newest first; one that
    is no such record is told."""
    found = []
    for name in _names(store):
        with suppress(FileNotFoundError):  # cleared meanwhile
            record = parse_object(read_small(f"{store}/{BAD}/{name}.json"))
            if record.keys() >= _FIELDS and isinstance(record["time"], (int, float)):
                found.append(record)
            else:
                print(f"warning: {store}/{BAD}/{name}.json is no record of a node: remove it", flush=True)
    return sorted((each for each in found if time.time() - each["time"] < seconds), key=lambda each: -each["time"])


def clear_bad(store: str, node: str) -> None:
    """Remove the record of a node. Raises InputError: there is none."""
    names = _names(store)
    if node not in names:
        raise InputError(f"node {node!r} has no record in {store}, which has: {', '.join(names) or 'none'}")
    remove(f"{store}/{BAD}", [f"{node}.json"], node)


def _names(store: Path | str) -> list[str]:
    """List the nodes that have a file, whatever is in it."""
    return [name.removesuffix(".json") for name in names_at(f"{store}/{BAD}", "store") if name.endswith(".json")]
