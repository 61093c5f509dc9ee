"""`argosy logs NODE`: print the log of a step; -f goes on until it ends."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from argosy.core.config.explain import first_of, likely
from argosy.core.errors import InputError
from argosy.core.store.lease import live_holder
from argosy.core.store.step_files import LOG, rank_log
from workflows.argo.client.api import ApiError, ArgoClient
from workflows.argo.client.view import EXECUTOR, OVER, Json, Unit, View, view
from workflows.cli.cluster import MORE, add_cluster, connected, on_argo
from workflows.cli.command import Command, add_store
from workflows.stored.last_run import directory_of, unfinished

POLL_S, POD_POLL_S = 0.3, 2.0
MANY = 20  # pods that are named


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="node, such as pretrain or evaluate/sft-final-benchmark")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing until the step ends")
    add_store(parser)
    add_cluster(parser)
    parser.add_argument("--workflow", metavar="NAME", default="", help="workflow on a cluster (default: the newest)")


def run(args: argparse.Namespace) -> int:
    if on_argo(args):
        return copy_pod(connected(args), args.workflow, args.node, follow=args.follow)
    if args.workflow:
        raise InputError("--workflow is for a cluster: add --on argo")
    directory = directory_of(args.store, args.node)
    path = directory / LOG
    while args.follow and not path.exists() and live_holder(directory):
        time.sleep(POLL_S)
    if not path.exists():
        raise InputError(unfinished(args.store, args.node, directory))
    first = directory / rank_log(0)
    _copy(path, directory if args.follow and not first.exists() else None)
    if first.exists():  # of several processes: the training
        _copy(first, directory if args.follow else None)
    return 0


def _copy(path: Path, follow: Path | None) -> None:
    """Copy the file; with `follow`, also what is added while a process works in that directory."""
    with open(path, "rb") as log:
        while True:
            alive = follow is not None and live_holder(follow) is not None  # read before the last block
            while block := log.read(1 << 16):
                sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
            if not alive:
                return
            time.sleep(POLL_S)


def copy_pod(client: ArgoClient, workflow: str, name: str, *, follow: bool) -> int:
    """Copy the newest attempt's log to stdout; with `follow`, that of every attempt from then on."""
    found = view(client.find(workflow))
    if follow:
        return _follow(client, found, name, time.sleep)
    unit = unit_named(found, name)
    if not unit.attempts:
        raise InputError(f"{unit.label} has not started yet: {unit.waits or 'it waits'}; -f waits for it too")
    _print(client, found, unit, follow=False)
    return 0


def unit_named(found: View, name: str) -> Unit:
    """Find the pod of a task (`sft`), of a part of one (`evaluate-sft/1of3`), or of a batch. Raises InputError: there
    is none, or there are several; names what there is."""
    wanted = name.replace("_", "-")
    same = [unit for unit in found.units if wanted in (unit.label, unit.task, unit.batch.replace("_", "-"))]
    if len(same) == 1:
        return same[0]
    if same:
        labels = [unit.label for unit in same]
        raise InputError(f"{name} is not one pod; name one of them: {first_of(labels, MANY)}")
    task = next((task for task in found.tasks if task.name == wanted), None)
    if task:
        states = {"skipped": "is already done, or outside of the range: it has no pod",
                  "blocked": "did not start, since a node that it needs failed"}  # fmt: skip
        raise InputError(f"{name} {states.get(task.state, 'has not started yet; -f waits for it')}")
    known = [unit.label for unit in found.units] + [task.name for task in found.tasks]
    raise InputError(f"{name!r} is no task of {found.name}; {likely(wanted, dict.fromkeys(known), most=MANY)}")


def _follow(client: ArgoClient, found: View, name: str, sleep: Callable[[float], None]) -> int:
    shown = 0
    while True:
        task = next((task for task in found.tasks if task.name == name.replace("_", "-")), None)
        unit = None if task and task.state == "pending" and not task.units else unit_named(found, name)
        if unit and len(unit.attempts) > shown and unit.attempts[-1].get("phase") != "Pending":
            if _print(client, found, unit, follow=unit.state not in OVER):
                shown = len(unit.attempts)
        elif found.over or (unit and unit.state in OVER):
            return 0
        sleep(POD_POLL_S)
        found = view(client.get(found.name))


def _print(client: ArgoClient, found: View, unit: Unit, *, follow: bool) -> bool:
    """Print the log and return whether there was one; with `follow`, the container may not have started yet."""
    node: Json = unit.attempts[-1]
    try:
        for line in client.log(found.workflow, node, follow=follow):
            if not EXECUTOR.search(line.decode(errors="replace")):
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
    except ApiError as error:
        if follow and error.status in (400, 404):  # ContainerCreating
            return False
        if error.status != 404:
            raise
        raise InputError(_gone(found, unit)) from None
    return True


def _gone(found: View, unit: Unit) -> str:
    """Make the error for a pod that is gone, with the place of the step's own log."""
    store = found.plan_line.rpartition("store ")[2]
    alone = store and unit.batch not in (unit.task, unit.label) and "of" not in unit.batch.rpartition("-")[2]
    place = f"; the step's own log is in the store: {store}/{unit.batch}/log.txt" if alone else ""
    return (f"the pod of {unit.label} is gone, and its log with it (the profile's keep.pods says when){place}; "
            "with keep.archive_logs it stays in Argo's archive, for its UI")


COMMAND = Command("logs", "print the log of a step", 50, configure, run, MORE)
