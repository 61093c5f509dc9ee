"""`argosy gate`: hold a checkpoint against the rules of promotion."""

import argparse
import re
from collections.abc import Collection

from argosy.core.errors import InputError, StepError
from argosy.core.store.files import json_text
from workflows.cli.command import Command, add_store, checked, user_path

NO_GATE = ("the model line {line!r} has no gate: give --rules FILE, or write the rules below `gate` in the run's "
           "config (docs/gate.md)")


_ALIAS = re.compile(r"(?!(?i:latest|v\d+)$)[\w-]+")  # as MLflow takes them
_MODEL = re.compile(r"(?!\.+$)[\w.-]+")
rules_file = checked(user_path, "a YAML file of rules, as docs/gate.md has them", lambda path: not path.is_dir())


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="STAGE (its last checkpoint), STAGE/EXPORT or a "
                        "directory")
    add_store(parser)
    parser.add_argument("--rules", type=rules_file, default=None, metavar="FILE",
                        help="YAML (default: the gate section of the line's newest config)")
    parser.add_argument("--reference", default="", metavar="NAME",
                        help="an alias of the registry or a checkpoint (default: what --alias names)")
    parser.add_argument("--alias", default="reference", metavar="NAME", help="default: reference")
    parser.add_argument("--model", metavar="NAME", help="registered model (default: the line's name)")
    parser.add_argument("--json", action="store_true", help="the evidence as JSON")


def check_names(alias: str, model: str | None, lines: Collection[str]) -> None:
    """Check names before anything is asked or written. A line of the store is known by its own name, whatever that is.
    Raises InputError: MLflow cannot have an alias or a model of that name."""
    if not _ALIAS.fullmatch(alias):
        raise InputError(f"--alias is {alias!r}, allowed: letters, digits, '_' and '-' (MLflow keeps 'latest' and "
                         "'v1', 'v2', ... for itself)")
    if model is not None and model not in lines and not _MODEL.fullmatch(model):
        raise InputError(f"--model is {model!r}, allowed: letters, digits, '_', '-' and '.', or a model line of "
                         f"the store ({', '.join(lines) or 'none'})")


def run(args: argparse.Namespace) -> int:
    """0: it holds; 1: a rule fails or cannot be told; 2: wrong input."""
    from argosy.core.tracking.ship import Unavailable
    from argosy.evidence.gate.check import as_json, lines
    from workflows.nightly.candidates import find_candidates, gate_for, hold, last_by_name, reference_of, registry_of

    store = args.store.absolute()
    candidates = find_candidates(store)
    check_names(args.alias, args.model, candidates.lines)
    candidate = last_by_name(args.checkpoint, candidates, store)
    line = candidate.step.line
    gate = gate_for(args.rules, store, line)
    if gate is None:
        raise InputError(NO_GATE.format(line=line))
    try:
        reference = reference_of(args.reference, args.alias, args.model or line, candidates, store, registry_of(store))
    except Unavailable as error:
        raise StepError(f"MLflow does not answer, so it is not known what to compare with: {error}; name a checkpoint "
                        "with --reference") from None
    verdict = hold(gate, candidate, reference, store)
    if reference is None:
        verdict.new.notes.append(f"{args.model or line}@{args.alias} names nothing, so there is no reference")
    print(json_text(as_json(verdict), indent=1, ensure_ascii=True) if args.json else "\n".join(lines(verdict)))
    return 0 if verdict.holds else 1


COMMAND = Command("gate", "hold a checkpoint against the rules of promotion", 96, configure, run)
