"""The nodes that failed, outside of the store: a webhook is told of each, and they are cordoned where a cluster has
given the right to it. Both by looking again and again."""

import argparse
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import ArgosyError, Stopped
from argosy.core.nodes.bad import NODES, bad_nodes
from argosy.core.step.process import stop_on_signals
from argosy.core.store.files import make_directory, read_record, write_json
from workflows.argo.profile.pods import NO_NODE, avoided
from workflows.argo.profile.profile import Profile
from workflows.nightly.announce import post

if TYPE_CHECKING:
    from workflows.argo.client.api import Transport

TOLD = f"{NODES}/told"
MARK = "argosy/bad"  # annotation of nodes that were cordoned here
EVERY_S = 120.0


def tell(store: Path, webhook: str) -> None:
    """Tell a webhook of each record once; what it does not take is told at the next look."""
    for record in bad_nodes(store) if webhook else ():
        note = store / TOLD / f"{record['node']}.json"
        if read_record(note).get("time") == record["time"]:
            continue
        text = f"node {record['node']} is bad ({record['cause']}): {record['why']}; {record['run']}"
        if reason := post(webhook, {"text": f"Argosy: {text}", **record}):
            print(f"warning: the webhook was not told ({reason}): {text}", file=sys.stderr, flush=True)
        else:
            write_json(make_directory(note.parent) / note.name, {"time": record["time"]})


def cordon(profile: Profile, arguments: argparse.Namespace) -> int:
    """Cordon the nodes that pods keep away from, and uncordon them later; return 0, or 143 when stopped."""
    from workflows.argo.client.api import connect

    api, store = connect(profile.namespace).transport, profile.storage.uri or profile.storage.root
    return follow("cordon", lambda: mark_nodes(api, {*avoided(profile, store)} - {NO_NODE}), once=arguments.once)


def mark_nodes(api: "Transport", bad: Collection[str]) -> int:
    """Cordon `bad` nodes and mark them; uncordon the marked ones that are not bad any more. A node that somebody else
    has cordoned, or has uncordoned since, stays as it is. Returns 0. Raises ApiError."""
    from workflows.argo.client.api import MERGE

    for node in api.ask("GET", "/api/v1/nodes").get("items") or []:
        name, held = node["metadata"]["name"], bool(node["spec"].get("unschedulable"))
        marked = MARK in (node["metadata"].get("annotations") or {})
        if marked == (name in bad) or (held and not marked):
            continue
        mark = {"annotations": {MARK: None if marked else "true"}}
        api.ask("PATCH", f"/api/v1/nodes/{name}", {"metadata": mark, "spec": {"unschedulable": not marked}}, kind=MERGE)
        print(f"{name} is {'uncordoned' if marked else 'cordoned'}", flush=True)
    return 0


def follow(name: str, look: Callable[[], int], *, once: bool) -> int:
    """Look every two minutes; trouble is one warning, however long it lasts. Returns 143 when stopped; with `once` 1
    where something is left, as `look` counts it."""
    if once:
        return int(look() > 0)
    stop_on_signals()
    told = ""
    try:
        while True:
            try:
                look()
                told = ""
            except (ArgosyError, OSError, ValueError) as error:
                if str(error) != told:
                    print(f"{name}: {error}; asked again later", file=sys.stderr, flush=True)
                told = str(error)
            time.sleep(EVERY_S)
    except Stopped as stopped:
        return stopped.exit_code
