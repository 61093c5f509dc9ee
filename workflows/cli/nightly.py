"""`argosy nightly`: evaluate new checkpoints, compare them with their references, announce what got worse."""

import argparse
from typing import TYPE_CHECKING
from uuid import uuid4

from argosy.core.errors import InputError, StepError
from workflows.cli.cluster import MORE, add_cluster, on_argo, start
from workflows.cli.command import Command, add_budget, add_store, as_typed

if TYPE_CHECKING:
    from workflows.nightly.night import Night

TEMPLATE = "evaluate"
_INSTEAD = {"webhook": "the profile's nightly.webhook_secret", "dry_run": "argosy nightly --dry-run --store DIR"}
_HERE_ONLY = ("cores", "memory", "plain", "dry_run", "webhook")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", action="append", default=[], metavar="NAME", dest="checkpoints",
                        help="STAGE, STAGE/EXPORT or a directory; may be repeated (default: all that are new)")
    add_store(parser)
    parser.add_argument("--suites", type=_names, default=(), metavar="A,B",
                        help="suites to evaluate with (default: those of the run's config)")
    parser.add_argument("--reference", default="", metavar="NAME",
                        help="an alias of the registry or a checkpoint (default: the alias `reference`)")
    parser.add_argument("--model", default="", metavar="NAME", help="registered model (default: the line's name)")
    parser.add_argument("--webhook", default="", metavar="URL",
                        help="gets a message when something got worse, instead of exit code 1")
    add_budget(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    add_cluster(parser)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.replace("\n", ",").split(",") if name.strip())


def run(args: argparse.Namespace) -> int:
    """0; 1 something got worse or failed; 2 wrong input."""
    if on_argo(args):
        return _submit(args)
    if args.webhook and not args.webhook.startswith(("http://", "https://")):
        raise InputError(f"--webhook is {args.webhook!r}, allowed: an address that begins with http:// or https://")
    if not args.store.is_dir():
        raise InputError(f"nothing has run in {args.store} yet: start with 'argosy run', or name another --store")
    from argosy.core.tracking.ship import Unavailable
    from workflows.nightly.candidates import registry_of
    from workflows.nightly.night import Request, describe, plan_nights

    try:
        request = Request(tuple(args.checkpoints), args.suites, args.reference, model=args.model)
        with as_typed({"evaluate.suites": "--suites"} if args.suites else {}):
            nights = plan_nights(args.store, request, registry_of(args.store))
    except Unavailable as error:
        raise StepError(f"MLflow does not answer, so it is not known what to compare with: {error}; run it again "
                        "later, or name another MLFLOW_TRACKING_URI") from None
    print(describe(nights), flush=True)
    return int(any(night.wrong for night in nights)) if args.dry_run else _execute(nights, args)


def _execute(nights: "list[Night]", args: argparse.Namespace) -> int:
    from workflows.local.scheduler import Budget
    from workflows.nightly.announce import announce
    from workflows.nightly.night import report_of, run_night

    budget = Budget(args.cores, args.memory)
    failed = [night.wrong for night in nights if night.wrong]
    failed += [each for night in nights if night.pairs for each in run_night(night, budget, plain=args.plain)]
    worse = announce(args.store.absolute(), f"local {uuid4()}", args.webhook)
    for report in filter(None, map(report_of, nights)):
        print(f"report: {report}", flush=True)
    if any(night.pairs for night in nights) and not (failed or worse):
        print("nightly: nothing new is worse than its reference", flush=True)
    for line in (*failed, *worse):
        print(f"nightly: {line}", flush=True)
    return 1 if failed or worse else 0


def _submit(args: argparse.Namespace) -> int:
    for name in _HERE_ONLY:
        if getattr(args, name):
            instead = _INSTEAD.get(name, "the profile, such as stages.evaluate.cpu")
            raise InputError(f"--{name.replace('_', '-')} is about this machine and does not work with --on argo; "
                             f"instead: {instead}")
    given = {"checkpoints": "\n".join(args.checkpoints), "suites": ",".join(args.suites),
             "reference": args.reference, "model": args.model}  # fmt: skip
    start(args, TEMPLATE, {name: value for name, value in given.items() if value})
    return 0


COMMAND = Command("nightly", "evaluate what is new and compare it with the reference", 95, configure, run, MORE)
