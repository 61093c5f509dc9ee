"""`argosy stop`: end a workflow; finished steps stay finished."""

import argparse
from typing import TYPE_CHECKING

from argosy.core.errors import InputError
from workflows.cli.cluster import MORE, add_access, connected, with_access
from workflows.cli.command import Command

if TYPE_CHECKING:
    from workflows.argo.client.view import View


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="WORKFLOW", help="workflow to end")
    parser.add_argument("--terminate", action="store_true",
                        help="end it at once, without the exit handler's report to MLflow")
    add_access(parser)


def run(args: argparse.Namespace) -> int:
    from workflows.argo.client.view import view

    client = connected(args)
    found = view(client.find(args.name))
    if found.over:
        raise InputError(f"{args.name} is over: it {found.phase.lower()}")
    client.shut_down(args.name, "Terminate" if args.terminate else "Stop")
    after = with_access(args, args.name)
    how = "terminated" if args.terminate else f"stopped; {_report(found, after)}"
    print(f"{args.name} is being {how}. 'argosy retry {after}' continues from here.")
    return 0


def _report(found: "View", after: str) -> str:
    """Predict the exit handler's report: its pod starts where the plan's does, and waits for what that waits for."""
    from workflows.argo.client.view import FINISH, PLAN

    units = {unit.task: unit for unit in found.units if unit.state == "pending" and unit.waits}
    waiting = units.get(FINISH) or units.get(PLAN)
    if waiting is None:
        return "its exit handler still reports to MLflow"
    lost = "nothing has run, so that loses no report" if waiting.task == PLAN else "then the reconciler tells MLflow"
    return (f"its exit handler cannot start while its pod waits as that of {waiting.label} does ({waiting.waits}): "
            f"'argosy stop {after} --terminate' ends it at once ({lost})")


COMMAND = Command("stop", "end a workflow", 102, configure, run, MORE)
