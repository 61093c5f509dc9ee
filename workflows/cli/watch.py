"""`argosy watch`: follow a workflow to its end."""

import argparse
from typing import TYPE_CHECKING

from workflows.cli.cluster import MORE, add_access, connected, profile_of, report_link, with_access
from workflows.cli.command import Command

if TYPE_CHECKING:
    from workflows.argo.client.api import ArgoClient


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="WORKFLOW",
                        help="workflow to follow (default: the newest)")
    add_access(parser)


def run(args: argparse.Namespace) -> int:
    client = connected(args)
    name = str(client.find(args.name)["metadata"]["name"])
    if not args.name:
        print(f"workflow: {name}", flush=True)
    return follow(client, name, args)


def follow(client: "ArgoClient", name: str, args: argparse.Namespace) -> int:
    """Watch `name` and summarize it; Ctrl-C leaves it alone."""
    from workflows.argo.client.watch import summary, watch

    after = with_access(args, name)
    try:
        found = watch(client, name)
    except KeyboardInterrupt:
        print(f"\n{name} continues: 'argosy watch {after}' follows it again, 'argosy stop {after}' ends it", flush=True)
        return 1
    for line in summary(found, after):
        print(line, flush=True)
    link = report_link(profile_of(args, client, found.parameters.get("profile", "")), client.namespace, found)
    if link:
        print(f"report: {link}", flush=True)
    return found.exit_code


COMMAND = Command("watch", "follow a workflow to its end", 101, configure, run, MORE)
