"""`argosy compare`: what got better from one checkpoint to others, what was forgotten, what is noise."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.errors import InputError
from workflows.cli.command import Command, add_store

if TYPE_CHECKING:
    from argosy.compare.entries import Compared

WIDE = 200  # of what is no terminal
MORE = """A CHECKPOINT is one of
  sft, pretrain/p050         a stage of the last run (its last checkpoint), or STAGE/EXPORT
  runs/sft-0123456789ab      a step's directory, or a checkpoint in it, of any store
  line:NAME                  a model line: its last checkpoint, with the curves that led to it
  runs:/ID                   an MLflow run: of a training step, an evaluation, a line's curves, or any other
  models:/NAME@ALIAS         what the registry's alias names; @ALIAS is of the store's own line
  models:/NAME/VERSION, models:/m-ID

examples:
  argosy compare sft dpo rlhf --html compare.html
  argosy compare line:base line:mixed --by tokens          at the most tokens that both have seen
  argosy compare @reference sft --metrics 'bench/*/plain/*' --metrics 'heldout/*'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
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
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page (one file, no network)")
    parser.add_argument("--mlflow", action="store_true", help="also log the comparison to MLflow, with page and tables")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; write and log what was asked for."""
    from argosy.compare.comparison import compare
    from argosy.compare.entries import At, choose
    from workflows.stored.names import Names

    at = At.parse(args.at, args.by)
    _check(args)
    names = Names(args.store)
    entries = names.entries(args.checkpoints)
    choose(entries, at)
    names.complete(entries)
    found = compare(entries, args.metrics, everything=args.all)
    _print(found, args)
    if args.html or args.mlflow:
        from workflows.stored.publish import publish

        for line in publish(found, names, args.html, mlflow=args.mlflow):
            print(line, file=sys.stderr if args.json else sys.stdout)
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.html and (args.html.is_dir() or not args.html.absolute().parent.is_dir()):
        raise InputError(f"--html {args.html}: allowed: a file to be written, in a directory that is there")


def _print(found: "Compared", args: argparse.Namespace) -> None:
    if args.json:
        from argosy.compare.page.record import record

        print(json.dumps(record(found), ensure_ascii=False, indent=1))
        return
    from argosy.compare.terminal import terminal

    print(terminal(found, shutil.get_terminal_size((WIDE, 24)).columns, everything=args.all))


COMMAND = Command("compare", "what got better from one checkpoint to others, what was forgotten, what is noise", 70,
                  configure, run, MORE)
