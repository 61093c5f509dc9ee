"""python -m argosy.tracking ship: send the spools of a store to MLflow."""

from __future__ import annotations

import argparse
import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy.tracking.batches import spools
from argosy.tracking.follow import follow, process_ended
from argosy.tracking.records import SPOOL
from argosy.tracking.send import MlflowSender
from argosy.tracking.server import Server, tracking_uri, without_password
from argosy.tracking.shipper import Shipper


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 when everything was sent, 1 when something is left, 2 for wrong arguments."""
    arguments = _arguments(argv)
    store: Path = arguments.store or arguments.node[0].parent
    if not store.is_dir():
        print(f"--store: {store} is not a directory", file=sys.stderr)
        return 2
    uri = tracking_uri(store, arguments.tracking_uri)
    own = [node / "tracking" / SPOOL for node in arguments.node or ()]
    shipper = Shipper((lambda: own) if own else (lambda: spools(store)), MlflowSender(Server(uri, store)))
    later = f"{os.path.basename(sys.executable)} -m argosy.tracking ship --store {shlex.quote(str(store))} --once"

    def trouble(reason: str) -> None:
        print(
            f"tracking: MLflow at {without_password(uri)} does not take metrics: {reason}\n"
            f"  Nothing is lost or stopped: all is kept in {store}/*/tracking/{SPOOL} and sent when it answers.\n"
            f"  If the address is wrong, set MLFLOW_TRACKING_URI or --tracking-uri. To send later: {later}",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the runner's end is what ends this
    if not arguments.once:
        os.nice(10)  # training goes first
    ended = _ended(arguments)
    return 0 if follow(shipper, ended, trouble) else 1


def _ended(arguments: argparse.Namespace) -> Callable[[], bool]:
    """What says that no more will come."""
    if arguments.until_eof:
        return lambda: bool(select.select([0], [], [], 0)[0]) and not os.read(0, 1)
    return process_ended(arguments.until_pid) if arguments.until_pid else lambda: True


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m argosy.tracking", description="Send what steps logged to MLflow.")
    ship = parser.add_subparsers(required=True).add_parser("ship", help="send the spools of a store or of some nodes")
    what = ship.add_mutually_exclusive_group(required=True)
    what.add_argument("--store", type=Path, help="send what all its nodes and pipeline runs log")
    what.add_argument("--node", type=Path, nargs="+", metavar="DIR", help="send what these steps' directories log")
    until = ship.add_mutually_exclusive_group(required=True)
    until.add_argument("--until-pid", type=int, metavar="PID", help="follow until this process has ended")
    until.add_argument("--until-eof", action="store_true", help="follow until stdin is closed, as a parent's end does")
    until.add_argument("--once", action="store_true", help="send what is there, then end")
    ship.add_argument("--tracking-uri", default="", help="default: MLFLOW_TRACKING_URI, or <store>/mlflow.db")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
