"""`argosy run`: run unfinished steps on this machine."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from argosy.core.step.machine import usable_cores
from argosy.core.store.files import make_directory, read_record
from steps.compare import COMPARISON
from workflows.budget import Meter
from workflows.cli.command import Command, add_budget, add_store
from workflows.cli.options import OVERRIDES, add_config, add_range, checked_plan, describe_all
from workflows.cli.report import REPORT
from workflows.cli.status import kept_aside, watched
from workflows.learnt import applied, learn
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import Plan
from workflows.stored import last_run


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_store(parser)
    add_range(parser)
    add_budget(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the plan alone, like argosy plan")


def run(args: argparse.Namespace) -> int:
    planned, config, found = checked_plan(args, lifecycle)
    if args.dry_run:
        print(describe_all(planned, config, found))
        return 0
    make_directory(args.store.absolute())
    planned = applied(planned, learn(planned)) if config.learn_resources else planned
    code = execute(planned, config, args)
    for line in [*kept_aside({node.id: node.dir for node in planned.nodes}), *watched(planned.nodes)]:
        print(line)
    for node in (node for node in planned.nodes if node.name == "compare" and code == 0):
        if (report := Path(node.dir, REPORT)).is_file():  # of this config; --to may have left it out
            print("\n".join([f"report: {report}", *_serve(Path(node.dir), args.store)]))
    return code


def _serve(comparison: Path, store: Path) -> Iterator[str]:
    """Yield the command that serves the checkpoint that leads in most tasks of a comparison, if it has any."""
    tasks = read_record(comparison / COMPARISON).get("tasks", {})
    for name, _ in Counter(task["highest"] for task in tasks.values() if task["highest"]).most_common(1):
        yield f"serve:  argosy serve {name}" + ("" if store == Path("runs") else f" --store {shlex.quote(str(store))}")


def _note_full(planned: Plan, cores: int) -> None:
    """Say on stderr which stages leave no core for the evaluation of their exports while they train."""
    early = {other for node in planned.to_run if node.early for other in node.upstream}
    full = [node.name for node in planned.to_run if node.id in early and node.resources.cores >= cores]
    if full:
        print(f"note: evaluate.follow: {', '.join(full)} will use all {cores} cores, so exports are evaluated "
              "when it has ended; fewer of its processes or threads leave some", file=sys.stderr)


def execute(planned: Plan, config: LifecycleConfig, args: argparse.Namespace) -> int:
    """Run `planned`; returns 0, 1 or 2."""
    from workflows.local.runner import run_plan
    from workflows.local.scheduler import Budget
    from workflows.local.shipping import Shipping

    nodes = {node.id: (node.dir, node.upstream) for node in planned.nodes}
    last_run.record(Path(planned.store), nodes, planned.stages, config)
    _note_full(planned, cores := args.cores or usable_cores())
    with Shipping(planned, config.name, config) as shipping:
        budget = Budget(cores, args.memory)
        result = run_plan(planned, budget=budget, observers=[shipping], plain=args.plain,
                          spent=Meter(config.budget, config.gpu_hour_price,
                                       [node.dir for node in planned.nodes], planned.to_run))
    return 1 if result.signal else result.exit_code


COMMAND = Command("run", "run unfinished steps on this machine", 30, configure, run, OVERRIDES)
