"""`argosy plan`: what a run would do, and why; it changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from workflows.cli.command import Command
from workflows.cli.options import OVERRIDES, add_config, add_range, add_store, load_config
from workflows.cli.table import columns
from workflows.lifecycle import lifecycle
from workflows.plan import Plan, PlannedNode, plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_config(parser)
    add_store(parser)
    add_range(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each stage."""
    print(describe(plan(lifecycle(load_config(args)), args.store, args.first, args.last)))
    return 0


def describe(planned: Plan) -> str:
    """A line for each stage and state: how many nodes, what would happen, why."""
    groups: dict[tuple[str, str], list[PlannedNode]] = {}
    for node in planned.nodes:
        groups.setdefault((node.name, _action(node)), []).append(node)
    rows = [("NODE", "PARTS", "", "WHY")]
    rows += [(name, _parts(nodes), action, _reason(nodes)) for (name, action), nodes in groups.items()]
    total = f"{len(planned.to_run)} of {len(planned.nodes)} nodes to run, store {planned.store}"
    return f"{columns(rows, right=(1,))}\n{total}"


def _action(node: PlannedNode) -> str:
    if node.state == "done":
        return "done"
    return "run" if node.selected else "left out"


def _parts(nodes: Sequence[PlannedNode]) -> str:
    return str(len(nodes)) if nodes[0].part else ""


def _reason(nodes: Sequence[PlannedNode]) -> str:
    if nodes[0].state == "done":
        return ""
    reasons = list(dict.fromkeys(node.reason for node in nodes))
    return reasons[0] + (f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else "")


COMMAND = Command("plan", "show what a run would do, and why", 20, configure, run, OVERRIDES)
