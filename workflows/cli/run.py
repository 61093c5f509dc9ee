"""`argosy run`: run what is not done yet, on this machine."""

from __future__ import annotations

import argparse
import re

from argosy.storage import make_directory
from workflows import last_run
from workflows.cli.command import Command
from workflows.cli.options import OVERRIDES, add_config, add_range, add_store, load_config
from workflows.cli.plan import describe
from workflows.cli.rejects import kept_aside
from workflows.cli.report import newest
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import Plan, plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_config(parser)
    add_store(parser)
    add_range(parser)
    parser.add_argument("--cores", type=positive, default=0, metavar="N", help="for all steps together (default: all)")
    parser.add_argument(
        "--memory",
        type=memory,
        default=0.0,
        metavar="SIZE",
        help="for all steps together: 6 or 6.5 (GB), 512MB (default: 80 %% of the machine's)",
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of bars")
    parser.add_argument("--dry-run", action="store_true", help="the same as argosy plan")


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a whole number from 1 on")
    return int(text)


def memory(text: str) -> float:
    """GB (10^9 bytes) of `6`, `6.5`, `6GB`, `512MB`, `6GiB`."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+) *(?:([kmgt])(i?)b?)?", text.strip(), re.IGNORECASE)
    size = 0.0
    if found:
        unit = "kmgt".index((found[2] or "g").lower()) + 1
        size = float(found[1]) * (1024 if found[3] else 1000) ** unit / 1e9
    if size <= 0:
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a size above 0, such as 6, 6.5, 6GB or 512MB")
    return size


def run(args: argparse.Namespace) -> int:
    """Plan, run, say where the report is."""
    config = load_config(args)
    planned = plan(lifecycle(config), args.store, args.first, args.last)
    if args.dry_run:
        print(describe(planned))
        return 0
    make_directory(args.store.absolute())
    code = execute(planned, config, args)
    for line in kept_aside(planned.nodes):
        print(line)
    report = newest(args.store)
    if code == 0 and report:
        print(f"report: {report}")
    return code


def execute(planned: Plan, config: LifecycleConfig, args: argparse.Namespace) -> int:
    """Run `planned`; returns 0, 1 or 2."""
    from workflows.local import Budget, run_plan
    from workflows.shipping import Shipping

    last_run.record(planned, config)
    with Shipping(planned, config.name, config) as shipping:
        budget = Budget(args.cores, args.memory)
        result = run_plan(planned, budget=budget, observers=[shipping], plain=args.plain)
    return 1 if result.signal else result.exit_code


COMMAND = Command("run", "run what is not done yet", 30, configure, run, OVERRIDES)
