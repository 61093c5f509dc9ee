"""`argosy stop`: end a workflow; what is done stays done."""

from __future__ import annotations

import argparse

from argosy.errors import InputError
from workflows.cli.cluster import MORE, add_cluster, again, connected, need_argo
from workflows.cli.command import Command


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", metavar="WORKFLOW")
    parser.add_argument("--terminate", action="store_true", help="at once, without the exit handler's report to MLflow")
    add_cluster(parser, "argo")


def run(args: argparse.Namespace) -> int:
    """Ask the controller to end it."""
    need_argo(args, "press Ctrl-C where 'argosy run' runs")
    from workflows.argo.client_workflow import view

    client = connected(args)
    found = view(client.find(args.name))
    if found.over:
        raise InputError(f"{args.name} is over: it {found.phase.lower()}")
    client.shut_down(args.name, "Terminate" if args.terminate else "Stop")
    how = "terminated" if args.terminate else "stopped; its exit handler still reports to MLflow"
    print(f"{args.name} is being {how}. 'argosy retry {again(args, args.name)}' goes on from here.")
    return 0


COMMAND = Command("stop", "end a workflow", 102, configure, run, MORE)
