"""`argosy init`: write an argosy.yaml to start from."""

import argparse
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, write_atomic
from workflows.cli.command import Command
from workflows.cli.options import PROJECT_FILE

TEMPLATE = Path(__file__).with_name("argosy.yaml")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), metavar="DIR",
                        help="folder of the file (default: here)")


def run(args: argparse.Namespace) -> int:
    path = args.directory / PROJECT_FILE
    if args.directory.is_file():
        raise InputError(f"DIR is {args.directory}, a file; allowed: a directory, there already or to be made")
    if path.exists():
        raise InputError(f"{path} is there already: edit it, or remove it first")
    make_directory(args.directory.absolute())
    write_atomic(path, TEMPLATE.read_text(encoding="utf-8"))
    print(f"wrote {path}: edit it, then 'argosy plan' and 'argosy run' in {args.directory.absolute()} use it")
    return 0


COMMAND = Command("init", "write an argosy.yaml to start from", 10, configure, run)
