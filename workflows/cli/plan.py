"""`argosy plan`: show what a run would do, and why; it changes nothing."""

import argparse

from workflows.amounts import amounts
from workflows.cli.command import Command, add_store
from workflows.cli.options import OVERRIDES, add_config, add_range, describe_all, load_config
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs, plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_config(parser)
    add_store(parser)
    add_range(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each phase of training, and for each stage."""
    config = load_config(args)
    nodes = lifecycle(config)
    planned = plan(nodes, args.store, args.first, args.last)
    check_inputs(nodes, {node.name for node in planned.to_run})
    found = amounts(planned, config.data)
    print(describe_all(planned, config, found))
    return 0


COMMAND = Command("plan", "show what a run would do, and why", 20, configure, run, OVERRIDES)
