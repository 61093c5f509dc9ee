"""`argosy plan`: show what a run would do, and why; it changes nothing."""

import argparse

from workflows.cli.command import Command, add_store
from workflows.cli.options import OVERRIDES, add_config, add_range, checked_plan, describe_all
from workflows.lifecycle import lifecycle


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_store(parser)
    add_range(parser)
    parser.add_argument("--profile", metavar="NAME|FILE",
                        help="plan for the devices of this cluster profile, and refuse what its train image lacks")


def run(args: argparse.Namespace) -> int:
    if not args.profile:
        print(describe_all(*checked_plan(args, lifecycle)))
        return 0
    from workflows.argo.pod.outputs import check_images, with_devices
    from workflows.argo.profile.profile import load_profile

    profile = load_profile(args.profile)
    found = checked_plan(args, lambda config: lifecycle(with_devices(config, profile)))
    check_images(found[0].to_run, profile)
    print(describe_all(*found))
    return 0


COMMAND = Command("plan", "show what a run would do, and why", 20, configure, run, OVERRIDES)
