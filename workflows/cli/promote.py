"""`argosy promote`: let the registry's alias name a checkpoint that holds the gate, or what it named before."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.errors import InputError, StepError
from argosy.step_files import read_done
from workflows.cli.command import Command
from workflows.cli.gate import rules_file
from workflows.cli.options import add_store

if TYPE_CHECKING:
    from argosy.gate.check import Verdict
    from argosy.tracking.registry import Registry
    from workflows.nightly.found import Found
    from workflows.nightly.reference import Chosen

_ALIAS = re.compile(r"(?!(?i:latest|v\d+)$)[\w-]+")  # what MLflow takes
_MODEL = re.compile(r"(?!\.+$)[\w.-]+")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("checkpoint", nargs="?", default="", metavar="CHECKPOINT",
                        help="STAGE (its last checkpoint), STAGE/EXPORT or a directory")
    add_store(parser)
    parser.add_argument("--alias", default="reference", metavar="NAME", help="default: reference")
    parser.add_argument("--model", metavar="NAME", help="registered model (default: the line's name)")
    parser.add_argument("--by", default="", metavar="NAME", help="who decided it (default: your user name)")
    parser.add_argument("--gate", type=rules_file, default=None, metavar="FILE",
                        help="rules that it must hold (default: the gate section of the line's newest config, if any)")
    parser.add_argument("--reference", default="", metavar="NAME",
                        help="what it must not be worse than: an alias or a checkpoint (default: what the alias names)")
    parser.add_argument("--force", metavar="WHY", help="although the gate does not hold; why is kept")
    parser.add_argument("--undo", action="store_true", help="back to what the alias named before")


def run(args: argparse.Namespace) -> int:
    """0: moved, or there already; 1: the gate does not hold, or MLflow does not answer; 2: wrong input."""
    from argosy.tracking.registry import Registry, registered_name
    from argosy.tracking.server import Server, tracking_uri
    from workflows.nightly import promotion
    from workflows.nightly.found import find
    from workflows.nightly.reference import last_by_name

    _check(args)
    store = args.store.absolute()
    found = find(store)
    _check_names(args, found.lines)
    registry = Registry(Server(tracking_uri(store), store))
    if args.undo:
        line = args.model or _only(found.lines)
        now = promotion.undo(registry, line, store, alias=args.alias, by=args.by)
        print(f"{registered_name(line)}@{args.alias} is {promotion.described(now)} again")
        return 0
    chosen = last_by_name(args.checkpoint, found, store)
    grounds = [path.parent for path in sorted(store.glob("compare-*/outputs.json")) if _compares(path.parent, chosen)]
    comparison = str(max(grounds, key=lambda path: path.stat().st_mtime)) if grounds else ""
    verdict, against = _verdict(args, chosen, found, store, registry)
    forced = (args.force or "").strip()
    before, now = promotion.promote(
        registry, chosen, store, promotion.Grounds(args.by, comparison, "", verdict, forced, against),
        alias=args.alias, model=args.model or "")  # fmt: skip
    name = f"{registered_name(args.model or chosen.trained.line)}@{args.alias}"
    if before == now:
        asked = "" if verdict else ", and the gate was not asked"
        print(f"{name} is {promotion.described(now)}, {chosen.label}, already: nothing was moved{asked}")
        return 0
    print(f"{name} is {promotion.described(now)}, {chosen.label}; it was {promotion.described(before)}")
    return 0


def _check(args: argparse.Namespace) -> None:
    if bool(args.checkpoint) == args.undo:
        raise InputError("give a CHECKPOINT to promote, or --undo")
    if args.undo and (args.gate or args.force is not None or args.reference):
        raise InputError("--undo asks no gate: leave out --gate, --reference and --force")
    if args.force is not None and not args.force.strip():
        raise InputError("--force is empty: say why, since it is kept beside the promotion")


def _check_names(args: argparse.Namespace, lines: Collection[str]) -> None:
    """Before anything is written. A line of the store is known by its own name, whatever that is."""
    if not _ALIAS.fullmatch(args.alias):
        raise InputError(f"--alias is {args.alias!r}, allowed: letters, digits, '_' and '-' (MLflow keeps 'latest' and "
                         "'v1', 'v2', ... for itself)")
    if args.model is not None and args.model not in lines and not _MODEL.fullmatch(args.model):
        raise InputError(f"--model is {args.model!r}, allowed: letters, digits, '_', '-' and '.', or a model line of "
                         f"the store ({', '.join(lines) or 'none'})")


def _verdict(args: argparse.Namespace, chosen: Chosen, found: Found, store: Path,
             registry: Registry) -> tuple[Verdict | None, str | None]:
    """What the gate says, printed; None without a gate, and where the alias names the checkpoint already. And what the
    alias named then, which it must still name when it is moved; None where that was not asked."""
    from argosy.gate.render import lines
    from argosy.tracking.shipper import Unavailable
    from workflows.nightly.gating import gate_for, hold, reference_of
    from workflows.nightly.reference import Chosen

    line = chosen.trained.line
    gate = gate_for(args.gate, store, line)
    if gate is None:
        if args.force:
            raise InputError(f"--force: the model line {line!r} has no gate, so there is nothing to force")
        return None, None
    try:
        named = registry.at(args.model or line, args.alias)
        if named is not None and named.checkpoint == chosen.key:
            return None, chosen.key
        reference = reference_of(args.reference, args.alias, args.model or line, found, store, registry)
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None
    verdict = hold(gate, chosen, reference, store)
    print("\n".join(lines(verdict)), flush=True)
    if args.reference and args.reference != args.alias:
        return verdict, None
    key = reference.key if isinstance(reference, Chosen) else reference or ""
    return verdict, key


def _only(lines: list[str]) -> str:
    if len(lines) != 1:
        names = ", ".join(lines) or "none"
        raise InputError(f"the store has {len(lines)} model lines ({names}): name one with --model")
    return lines[0]


def _compares(comparison: Path, chosen: Chosen) -> bool:
    done = read_done(comparison)
    return done is not None and chosen.trained.digest in done["made_from"]["upstream"].get("checkpoints", [])


COMMAND = Command("promote", "let the registry's alias name a checkpoint that holds the gate", 97, configure, run)
