"""python -m argosy.core.tracking ship: send the spools of a store to MLflow."""

import argparse
import os
import select
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.lease import process_start
from argosy.core.tracking.mlflow.send import MlflowSender
from argosy.core.tracking.mlflow.server import Server, tracking_uri, without_password
from argosy.core.tracking.ship import Shipper, Unavailable
from argosy.core.tracking.spool import SPOOL, spools

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 1.0, 60.0
LONGEST_POLL_S = 10.0


def follow(shipper: Shipper, ended: Callable[[], bool], on_trouble: Callable[[str], None], poll_s: float = 1.0) -> bool:
    """Sweep until `ended`, and once more after it; True when everything was sent.

    A server that fails is called again after 1, 2, 4, ... 60 s; `on_trouble` gets the reason once for each outage, and
    once for each reason to refuse a spool."""
    back_off = retry_at = 0.0
    said: set[str] = set()
    while True:
        last = ended()
        complete = False
        if last or time.monotonic() >= retry_at:
            try:
                complete = shipper.sweep(patient=not last)
                if last and complete and shipper.end_dead():
                    complete = shipper.sweep()
                back_off = 0.0
            except Unavailable as trouble:
                if not back_off:
                    on_trouble(str(trouble))
                back_off = min(max(2 * back_off, FIRST_BACK_OFF_S), LONGEST_BACK_OFF_S)
                retry_at = time.monotonic() + back_off
            for reason in sorted({*shipper.refused.values()} - said):
                on_trouble(reason)
                said.add(reason)
        if last and (complete or back_off):
            return complete and not shipper.refused
        if complete or back_off:  # looking costs a twentieth of the time at most, however many spools there are
            pause = min(max(poll_s, 20 * shipper.look_s), LONGEST_POLL_S)
            until = time.monotonic() + pause
            while time.monotonic() < until and not ended():
                time.sleep(min(pause, 0.25))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when everything was sent, 1 when something is left, 2 for wrong arguments."""
    arguments = _arguments(argv)
    store: Path = arguments.store or arguments.node[0].parent
    if not store.is_dir():
        print(f"--store: {store} is not a directory", file=sys.stderr)
        return 2
    try:
        uri = tracking_uri(store, arguments.tracking_uri)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    own = [node / "tracking" / SPOOL for node in arguments.node or ()]
    shipper = Shipper((lambda: own) if own else (lambda: spools(store)), MlflowSender(Server(uri, store)))
    later = f"{os.path.basename(sys.executable)} -m argosy.core.tracking ship --store {shlex.quote(str(store))} --once"

    def trouble(reason: str) -> None:
        print(
            f"tracking: MLflow at {without_password(uri)} does not take metrics: {reason}\n"
            f"  Nothing is lost or stopped: all is kept in {store}/*/tracking/{SPOOL} and sent when it answers.\n"
            f"  If the address is wrong, set {'--tracking-uri' if arguments.tracking_uri else 'MLFLOW_TRACKING_URI'}. "
            f"To send later: {later}",
            file=sys.stderr, flush=True)  # fmt: skip

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the runner's end is what ends this
    if not arguments.once:
        os.nice(10)  # training goes first
    return 0 if follow(shipper, _ended(arguments), trouble) else 1


def _ended(arguments: argparse.Namespace) -> Callable[[], bool]:
    """The test for the end of all logging."""
    if arguments.until_eof:
        return lambda: bool(select.select([0], [], [], 0)[0]) and not os.read(0, 1)
    if not arguments.until_pid:
        return lambda: True
    started = process_start(arguments.until_pid)  # the process need not be a child
    return lambda: not started or process_start(arguments.until_pid) != started


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m argosy.core.tracking", description="Send what steps logged to MLflow.")
    ship = parser.add_subparsers(required=True).add_parser("ship", help="send the spools of a store or of some nodes")
    what = ship.add_mutually_exclusive_group(required=True)
    what.add_argument("--store", type=Path, help="send the logs of all its nodes and pipeline runs")
    what.add_argument("--node", type=Path, nargs="+", metavar="DIR", help="send the logs of these steps' directories")
    until = ship.add_mutually_exclusive_group(required=True)
    until.add_argument("--until-pid", type=int, metavar="PID", help="follow until this process has ended")
    until.add_argument("--until-eof", action="store_true", help="follow until stdin is closed, as a parent's end does")
    until.add_argument("--once", action="store_true", help="send the present logs, then end")
    ship.add_argument("--tracking-uri", default="", help="default: MLFLOW_TRACKING_URI, or <store>/mlflow.db")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
