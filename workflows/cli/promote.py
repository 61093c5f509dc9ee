"""`argosy promote`: let the registry's alias name a checkpoint, or what it named before."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.errors import InputError
from argosy.identity import Identities
from argosy.step_files import read_done
from workflows.cli.command import Command
from workflows.cli.options import add_store

if TYPE_CHECKING:
    from workflows.nightly.found import Found
    from workflows.nightly.reference import Chosen


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("checkpoint", nargs="?", default="", metavar="CHECKPOINT",
                        help="STAGE (its last checkpoint), STAGE/EXPORT or a directory")
    add_store(parser)
    parser.add_argument("--alias", default="reference", metavar="NAME", help="default: reference")
    parser.add_argument("--model", default="", metavar="NAME", help="registered model (default: the line's name)")
    parser.add_argument("--by", default="", metavar="NAME", help="who decided it (default: your user name)")
    parser.add_argument("--undo", action="store_true", help="back to what the alias named before")


def run(args: argparse.Namespace) -> int:
    """Print what the alias named, and what it names now."""
    from argosy.tracking.registry import Registry, registered_name
    from argosy.tracking.server import Server, tracking_uri
    from workflows.nightly import promotion
    from workflows.nightly.found import find

    if bool(args.checkpoint) == args.undo:
        raise InputError("give a CHECKPOINT to promote, or --undo")
    store = args.store.absolute()
    found = find(store)
    registry = Registry(Server(tracking_uri(store), store))
    if args.undo:
        line = args.model or _only(found.lines)
        now = promotion.undo(registry, line, alias=args.alias)
        print(f"{registered_name(line)}@{args.alias} is {promotion.described(now)} again")
        return 0
    chosen = _chosen(args.checkpoint, found, store)
    grounds = [path.parent for path in sorted(store.glob("compare-*/outputs.json")) if _compares(path.parent, chosen)]
    comparison = str(max(grounds, key=lambda path: path.stat().st_mtime)) if grounds else ""
    before, now = promotion.promote(registry, chosen, alias=args.alias, model=args.model, by=args.by,
                                    comparison=comparison)
    name = f"{registered_name(args.model or chosen.trained.line)}@{args.alias}"
    print(f"{name} is {promotion.described(now)}, {chosen.label}; it was {promotion.described(before)}")
    return 0


def _only(lines: list[str]) -> str:
    if len(lines) != 1:
        names = ", ".join(lines) or "none"
        raise InputError(f"the store has {len(lines)} model lines ({names}): name one with --model")
    return lines[0]


def _chosen(name: str, found: Found, store: Path) -> Chosen:
    """The checkpoint; of a stage or a step's directory its final one."""
    from workflows.nightly.reference import by_name

    several = by_name(name, found, store, Identities())
    if len(several) == 1:
        return several[0]
    return next((each for each in several if each.export == each.trained.final), several[-1])


def _compares(comparison: Path, chosen: Chosen) -> bool:
    done = read_done(comparison)
    return done is not None and chosen.trained.digest in done["made_from"]["upstream"].get("checkpoints", [])


COMMAND = Command("promote", "let the registry's alias name a checkpoint", 96, configure, run)
