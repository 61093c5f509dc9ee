"""`argosy report`: where the newest report is; --open shows it in the browser."""

import argparse
import webbrowser
from pathlib import Path

from argosy.errors import InputError
from argosy.store.files import read_record
from workflows.cli.command import Command, add_store
from workflows.stored import last_run

REPORT = "report.html"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_store(parser)
    parser.add_argument("--open", action="store_true", help="open it in the browser")


def run(args: argparse.Namespace) -> int:
    """Print the report's path."""
    path = newest(args.store)
    if path is None:
        raise InputError(f"there is no report in {args.store} yet: 'argosy run' makes one at its end")
    print(path)
    if args.open and not webbrowser.open(path.absolute().as_uri()):
        raise InputError("no browser was found: open the file above in one")
    return 0


def newest(store: Path) -> Path | None:
    """The last run's report if it is made, else the newest one in the store."""
    directories = read_record(store / last_run.FILE).get("directories", {})
    own: Path = store / directories.get("compare", "") / REPORT
    if own.is_file():
        return own
    return max(store.glob(f"compare-*/{REPORT}"), key=lambda path: path.stat().st_mtime, default=None)


COMMAND = Command("report", "print where the report is, or open it", 60, configure, run)
