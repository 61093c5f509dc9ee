"""`argosy submit`: start the lifecycle as a workflow on a cluster."""

import argparse

from workflows.cli.cluster import MORE, add_access, start
from workflows.cli.command import Command
from workflows.cli.options import OVERRIDES, add_config, add_range, config_parameters, load_config
from workflows.cli.watch import follow
from workflows.lifecycle import lifecycle
from workflows.plan import stage_range

TEMPLATE = "lifecycle"


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_range(parser)
    add_access(parser)
    parser.add_argument("--image-tag", metavar="TAG", help="tag of the images (default: the profile's)")
    parser.add_argument("--priority", metavar="CLASS", help="PriorityClass of the pods, one of the profile's")
    parser.add_argument("--watch", action="store_true", help="then follow it, like argosy watch")


def run(args: argparse.Namespace) -> int:
    """Check the config as `argosy run` does, submit, print links."""
    from workflows.argo.client.submission import check_files

    config = load_config(args)
    # Names and order; whether the stages before are done, the cluster's plan finds out.
    stage_range(list(dict.fromkeys(node.name for node in lifecycle(config))), args.first, args.last)
    check_files(config)
    given = {"from": args.first, "to": args.last, "image-tag": args.image_tag, "priority": args.priority}
    client, name = start(args, TEMPLATE, config_parameters(args) | {key: each for key, each in given.items() if each})
    return follow(client, name, args) if args.watch else 0


COMMAND = Command("submit", "start the lifecycle on a cluster", 100, configure, run, f"{OVERRIDES}\n\n{MORE}")
