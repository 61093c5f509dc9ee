"""`argosy logs NODE`: print the log of a step; -f goes on until it ends."""

import argparse
import sys
import time
from pathlib import Path

from argosy.errors import InputError
from argosy.store.lease import live_holder
from argosy.store.step_files import LOG, rank_log
from workflows.cli.cluster import MORE, add_cluster, connected, on_argo
from workflows.cli.command import Command, add_store
from workflows.stored.checkpoints import unfinished
from workflows.stored.last_run import directory_of

POLL_S = 0.3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("node", metavar="NODE", help="node, such as pretrain or evaluate/sft-final-benchmark")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing until the step ends")
    parser.add_argument("--rank", type=int, metavar="N", help="log of process N of a step of several processes")
    add_store(parser)
    add_cluster(parser, "local")
    parser.add_argument("--workflow", metavar="NAME", default="", help="workflow on a cluster (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """Copy the log to stdout."""
    if on_argo(args):
        if args.rank is not None:
            raise InputError("--rank is for a store on this machine: a pod prints the output of all its ranks")
        from workflows.argo.client.logs import copy

        return copy(connected(args), args.workflow, args.node, follow=args.follow)
    if args.workflow:
        raise InputError("--workflow is for a cluster: add --on argo")
    directory = directory_of(args.store, args.node)
    path = directory / (LOG if args.rank is None else rank_log(args.rank))
    if not path.exists() and not (args.follow and live_holder(directory)):
        raise InputError(unfinished(args.store, args.node, directory))
    _copy(path, directory if args.follow else None)
    return 0


def _copy(path: Path, follow: Path | None) -> None:
    """Copy the file; with `follow`, also what is added while a process works in that directory."""
    while follow and not path.exists():
        time.sleep(POLL_S)
    with open(path, "rb") as log:
        while True:
            alive = follow is not None and live_holder(follow) is not None  # read before the last block
            while block := log.read(1 << 16):
                sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
            if not alive:
                return
            time.sleep(POLL_S)


COMMAND = Command("logs", "print the log of a step", 50, configure, run, MORE)
