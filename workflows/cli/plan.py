"""`argosy plan`: show what a run would do, and why; it changes nothing."""

import argparse

from workflows.cli.command import Command, add_store
from workflows.cli.options import OVERRIDES, add_config, add_range, checked_plan, describe_all
from workflows.lifecycle import lifecycle


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_store(parser)
    add_range(parser)


def run(args: argparse.Namespace) -> int:
    print(describe_all(*checked_plan(args, lifecycle)))
    return 0


COMMAND = Command("plan", "show what a run would do, and why", 20, configure, run, OVERRIDES)
