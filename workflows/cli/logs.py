"""`argosy logs NODE`: what a step printed; -f goes on until it ends."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from argosy.errors import InputError
from argosy.lease import live_holder
from argosy.step_files import LOG
from workflows.cli.cluster import MORE, add_cluster, on_argo
from workflows.cli.command import Command
from workflows.cli.options import add_store
from workflows.cli.unfinished import unfinished
from workflows.last_run import directory_of

POLL_S = 0.3


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("node", metavar="NODE", help="such as pretrain or evaluate/sft-final-benchmark")
    parser.add_argument("-f", "--follow", action="store_true", help="go on printing until the step ends")
    add_store(parser)
    add_cluster(parser, "local")
    parser.add_argument("--workflow", metavar="NAME", default="", help="on a cluster (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """Copy the log to stdout."""
    if on_argo(args):
        from workflows.cli.argo_logs import copy

        return copy(args)
    if args.workflow:
        raise InputError("--workflow is about a cluster: add --on argo")
    directory = directory_of(args.store, args.node)
    path = directory / LOG
    if not path.exists() and not (args.follow and live_holder(directory)):
        raise InputError(unfinished(args.store, args.node, directory))
    _copy(path, directory if args.follow else None)
    return 0


def _copy(path: Path, follow: Path | None) -> None:
    """Copy what `path` holds; with `follow`, what is added while somebody works in that directory too."""
    while follow and not path.exists():
        time.sleep(POLL_S)
    with open(path, "rb") as log:
        while True:
            alive = follow is not None and live_holder(follow) is not None  # asked before the last read
            while block := log.read(1 << 16):
                sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
            if not alive:
                return
            time.sleep(POLL_S)


COMMAND = Command("logs", "print what a step printed", 50, configure, run, MORE)
