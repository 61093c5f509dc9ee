"""`argosy promote`: let the registry's alias name a checkpoint that holds the gate, or what it named before."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import InputError, StepError
from argosy.core.store.step_files import read_done
from workflows.cli.command import Command, add_store
from workflows.cli.gate import check_names, rules_file

if TYPE_CHECKING:
    from argosy.core.tracking.mlflow.registry import Registry
    from argosy.evidence.gate.check import Verdict
    from workflows.nightly.candidates import Candidate, Candidates


def configure(parser: argparse.ArgumentParser) -> None:
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
    from argosy.core.tracking.mlflow.registry import Registry, registered_name
    from argosy.core.tracking.mlflow.server import Server, tracking_uri
    from workflows.nightly import promotion
    from workflows.nightly.candidates import find_candidates, last_by_name

    _check(args)
    store = args.store.absolute()
    candidates = find_candidates(store)
    check_names(args.alias, args.model, candidates.lines)
    registry = Registry(Server(tracking_uri(store), store))
    if args.undo:
        if not args.model and len(candidates.lines) != 1:
            names = ", ".join(candidates.lines) or "none"
            raise InputError(f"the store has {len(candidates.lines)} model lines ({names}): name one with --model")
        line = args.model or candidates.lines[0]
        now = promotion.undo(registry, line, store, alias=args.alias, by=args.by)
        print(f"{registered_name(line)}@{args.alias} is {promotion.described(now)} again")
        return 0
    candidate = last_by_name(args.checkpoint, candidates, store)
    verdict, against = _verdict(args, candidate, candidates, store, registry)
    force = (args.force or "").strip()
    grounds = promotion.Grounds(args.by, _comparison(store, candidate), "", verdict, force, against)
    before, now = promotion.promote(registry, candidate, store, grounds, alias=args.alias, model=args.model or "")
    name = f"{registered_name(args.model or candidate.step.line)}@{args.alias} is {promotion.described(now)}"
    gate = "the gate holds" if verdict and verdict.holds else "no gate was held" if verdict is None else "forced"
    if before == now:
        print(f"{name}, {candidate.label}, already: nothing was moved; {gate}")
        return 0
    print(f"{name}, {candidate.label}; it was {promotion.described(before)}; {gate}")
    return 0


def _check(args: argparse.Namespace) -> None:
    if bool(args.checkpoint) == args.undo:
        raise InputError("give a CHECKPOINT to promote, or --undo")
    if args.undo and (args.gate or args.force is not None or args.reference):
        raise InputError("--undo holds no gate: leave out --gate, --reference and --force")
    if args.force is not None and not args.force.strip():
        raise InputError("--force is empty: say why, since it is kept beside the promotion")


def _verdict(args: argparse.Namespace, candidate: "Candidate", candidates: "Candidates", store: Path,
             registry: "Registry") -> "tuple[Verdict | None, str | None]":
    """The verdict of the gate, where the model line has one, and the checkpoint that it was compared with."""
    from argosy.core.tracking.ship import Unavailable
    from workflows.nightly.candidates import gate_for
    from workflows.nightly.promotion import examine

    line = candidate.step.line
    gate = gate_for(args.gate, store, line)
    if gate is None:
        if args.force:
            raise InputError(f"--force: the model line {line!r} has no gate, so there is nothing to force")
        return None, None
    try:
        return examine(gate, candidate, candidates, store, registry, alias=args.alias, model=args.model or "",
                       reference=args.reference)
    except Unavailable as error:
        raise StepError(f"MLflow does not answer: {error}; nothing was moved, run it again") from None


def _comparison(store: Path, candidate: "Candidate") -> str:
    """The directory of the newest comparison that the checkpoint is part of; "" for none."""
    directories = [path.parent for path in store.glob("compare-*/outputs.json")]
    own = [path for path in directories if (done := read_done(path)) is not None
           and candidate.step.digest in done["made_from"]["upstream"].get("checkpoints", [])]
    return str(max(own, key=lambda path: path.stat().st_mtime)) if own else ""


COMMAND = Command("promote", "let the registry's alias name a checkpoint that holds the gate", 97, configure, run)
