"""`argosy sweep`: small models side by side, with settings that differ; which setting a large one takes."""

import argparse
import contextlib
import json
import math
import sys
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.files import json_text, make_directory, read_json
from argosy.evidence.sweep.grid import STAGE
from workflows.cli.cluster import MORE, add_cluster, on_argo, start
from workflows.cli.command import Command, add_budget, add_store, checked, positive
from workflows.cli.options import add_config, config_file, config_parameters
from workflows.plan import Plan, PlannedNode, check_inputs, describe, plan
from workflows.sweep import NAME, Question, Sweep, read_sweep, sweep_nodes


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--seeds", type=positive, default=0, metavar="N",
                        help="seeds of each point, from the config's on, so that noise is known (default: one)")
    parser.add_argument("--channel", default="all", metavar="NAME",
                        help="held-out channel to compare by (default: the mean over all)")
    amount = checked(float, "a number above 0, such as 1e9", lambda number: 0 < number < math.inf)
    parser.add_argument("--target-parameters", type=amount, default=0.0, metavar="N",
                        help="of the large model, embedding and output layer aside, such as 1e9: the power law over "
                             "sizes gives its learning rate")
    parser.add_argument("--dry-run", action="store_true", help="show points, tokens and the plan alone")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_store(parser)
    add_budget(parser)
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    sweep = read_sweep(args.preset, config_file(args), args.overrides, args.seeds)
    question = Question(args.channel, args.target_parameters)
    if on_argo(args):
        return _submit(args, sweep)
    nodes = sweep_nodes(sweep, question, args.store)
    planned = plan(nodes, args.store)
    check_inputs(nodes, {node.name for node in planned.to_run})
    out = sys.stderr if args.json else sys.stdout
    print(summary(sweep, planned), file=out)
    if args.dry_run:
        print(describe(planned), file=out)
        return 0
    make_directory(args.store.absolute())
    code = _execute(planned, sweep, args)
    again = plan(sweep_nodes(sweep, question, args.store), args.store)
    if code == 1 and _diverged(planned, again):  # they are results too: the comparison names them
        print(f"{_diverged(planned, again)} points diverged; the others are compared", file=sys.stderr)
        code = _execute(again, sweep, args)
    return _show(again, code, json_=args.json)


def _diverged(before: Plan, after: Plan) -> int:
    return len(_points(before)) - len(_points(after))


def _execute(planned: Plan, sweep: Sweep, args: argparse.Namespace) -> int:
    """Run as `argosy run` does, apart from its note of the last run, which stays the lifecycle's."""
    from workflows.local.runner import run_plan
    from workflows.local.scheduler import Budget
    from workflows.local.shipping import Shipping

    told = contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext()
    with told, Shipping(planned, sweep.line, sweep.first) as shipping:
        result = run_plan(planned, budget=Budget(args.cores, args.memory), observers=[shipping], plain=args.plain)
    return 1 if result.signal else result.exit_code


def _show(planned: Plan, code: int, *, json_: bool) -> int:
    from argosy.evidence.report.sweep import table
    from steps.sweep import RECORD, REPORT

    directory = Path(planned.nodes[-1].dir)
    if code or not (directory / RECORD).is_file():
        return code
    record = read_json(directory / RECORD)
    if json_:
        print(json_text(record, indent=1))
        return code
    print(table(record))
    print("\n".join(sentence["text"] for sentence in record["sentences"]))
    print(f"report: {directory / REPORT}")
    return code


def summary(sweep: Sweep, planned: Plan) -> str:
    """Say how many points there are, what of them is to run, and on how many tokens."""
    points = _points(planned)
    to_run = [node for node in points if node.to_run]
    tokens = sum(json.loads(node.config)["tokens"] for node in to_run)
    axes = " x ".join(f"{len(axis.values)} of {axis.field}" for axis in sweep.grid.axes)
    left = len(sweep.points) - len(points)
    return (f"{len(sweep.points)} points ({axes}): {len(to_run)} to run, {len(points) - len(to_run)} reused"
            + (f", {left} diverged before" if left else "") + f"\n{tokens:,} tokens to train on")


def _points(planned: Plan) -> list[PlannedNode]:
    return [node for node in planned.nodes if node.name == STAGE]


def _submit(args: argparse.Namespace, sweep: Sweep) -> int:
    """Submit the template `sweep`, whose first pod plans as this command does."""
    from workflows.argo.client.submission import check_files

    if args.json or args.dry_run:
        raise InputError("--json and --dry-run are of a sweep on this machine: leave them out with --on argo")
    check_files(sweep.first)
    start(args, NAME, config_parameters(args) | {
        "channel": args.channel, "seeds": str(args.seeds), "target-parameters": f"{args.target_parameters:g}"})
    return 0


COMMAND = Command("sweep", "small models side by side: the setting that a large one takes", 24, configure, run, MORE)
