"""`argosy stop`: end a workflow; what is done stays done."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from argosy.errors import InputError
from workflows.cli.cluster import MORE, add_cluster, again, connected, need_argo
from workflows.cli.command import Command

if TYPE_CHECKING:
    from workflows.argo.client_workflow import View


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
    after = again(args, args.name)
    how = "terminated" if args.terminate else f"stopped; {_report(found, after)}"
    print(f"{args.name} is being {how}. 'argosy retry {after}' goes on from here.")
    return 0


def _report(found: View, after: str) -> str:
    """What becomes of the exit handler's report: its pod starts where the plan's does, and waits for what that does."""
    from workflows.argo.client_unit import FINISH
    from workflows.argo.client_workflow import PLAN

    units = {unit.task: unit for unit in found.units if unit.state == "pending" and unit.waits}
    waiting = units.get(FINISH) or units.get(PLAN)
    if waiting is None:
        return "its exit handler still reports to MLflow"
    lost = "nothing has run, so that loses no report" if waiting.task == PLAN else "then the reconciler tells MLflow"
    return (f"its exit handler cannot start while its pod waits as that of {waiting.label} does ({waiting.waits}): "
            f"'argosy stop {after} --terminate' ends it at once ({lost})")


COMMAND = Command("stop", "end a workflow", 102, configure, run, MORE)
