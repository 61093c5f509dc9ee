"""`argosy compare`: what got better from one checkpoint to others, what was forgotten, what is noise."""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import StepError
from argosy.core.store.files import json_text
from workflows.cli.command import Command, add_store, page_file

if TYPE_CHECKING:
    from argosy.evidence.compare.entries import Compared
    from workflows.stored.names import Names

WIDE = 200  # of what is no terminal


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT",
                        help="see below; the others are compared to the first")
    add_store(parser)
    parser.add_argument("--at", default="", metavar="WHERE",
                        help="tokens=1.2M, step=500 or last: of each line, the nearest checkpoint at or below")
    parser.add_argument("--by", choices=("tokens", "step"), default="",
                        help="at the most tokens (or steps of the stage) that all have reached")
    parser.add_argument("--metrics", action="append", default=[], metavar="GLOB",
                        help="only these, such as 'bench/*/plain/*'; may be repeated; tests are corrected over them")
    parser.add_argument("--all", action="store_true", help="every metric, and every line of what is noise")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--html", type=page_file, metavar="FILE", help="also write a page (one file, no network)")


def run(args: argparse.Namespace) -> int:
    from argosy.evidence.compare.comparison import compare
    from argosy.evidence.compare.entries import At, choose
    from workflows.stored.names import Names

    at = At.parse(args.at, args.by)
    names = Names(args.store)
    entries = names.entries(args.checkpoints)
    choose(entries, at)
    names.complete(entries)
    found = compare(entries, args.metrics, everything=args.all)
    if args.json:
        from argosy.evidence.report.record import record

        print(json_text(record(found), indent=1))
    else:
        from argosy.evidence.compare.terminal import terminal

        print(terminal(found, shutil.get_terminal_size((WIDE, 24)).columns, everything=args.all))
    if args.html:
        for line in publish(found, names, args.html):
            print(line, file=sys.stderr if args.json else sys.stdout)
    return 0


def publish(found: "Compared", names: "Names", html: Path) -> Iterator[str]:
    """Write the page; a line that says where, and one where it has no links to MLflow."""
    from argosy.core.store.files import write_atomic
    from argosy.core.tracking.mlflow.read import is_web
    from argosy.evidence.report.report import ComparisonPage
    from steps.compare import question_texts

    if is_web(names.server.uri):
        try:
            names.linked(found.entries)
        except StepError as error:
            yield f"no links to MLflow: {error}"
    page = ComparisonPage.of(found)
    untold: list[str] = []
    text = page.render(question_texts([e.chosen for e in found.entries], page.wanted(), untold.append))
    write_atomic(html, text, durable=False)
    yield from untold
    yield f"page: {html} ({len(text.encode()) / 1e6:.1f} MB)"


COMMAND = Command("compare", "what got better from one checkpoint to others, what was forgotten, what is noise", 70,
                  configure, run)
