"""`argosy report`: where the newest report is; --open shows it in the browser."""

import argparse
import sys
import webbrowser
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from workflows.cli.command import Command, add_store
from workflows.stored import last_run

REPORT = "report.html"


def configure(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument("--open", action="store_true", help="open it in the browser")


def run(args: argparse.Namespace) -> int:
    """Print the path of the last run's report if it is made, else of the newest one in the store."""
    compare = read_record(args.store / last_run.FILE).get("directories", {}).get("compare", "")
    own: Path = args.store / compare / REPORT
    every = [own] if own.is_file() else args.store.glob(f"compare-*/{REPORT}")
    path = max(every, key=lambda each: each.stat().st_mtime, default=None)
    if path is None:
        raise InputError(f"there is no report in {args.store} yet: 'argosy run' makes one at its end")
    if compare and path != own:
        print("note: the last run has not made its report yet; this is another config's", file=sys.stderr)
    print(path)
    if args.open and not webbrowser.open(path.absolute().as_uri()):
        raise InputError("no browser was found: open the file above in one")
    return 0


COMMAND = Command("report", "print where the report is, or open it", 60, configure, run)
