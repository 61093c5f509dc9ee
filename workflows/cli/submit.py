"""`argosy submit`: start the lifecycle as a workflow on a cluster."""

import argparse
import sys
from typing import TYPE_CHECKING

from argosy.core.errors import InputError, StepError
from workflows.cli.cluster import MORE, add_access, start, with_access
from workflows.cli.command import Command, not_negative
from workflows.cli.options import OVERRIDES, add_config, add_range, config_parameters, load_config
from workflows.cli.watch import follow
from workflows.lifecycle import lifecycle
from workflows.plan import stage_range

if TYPE_CHECKING:
    from workflows.argo.client.api import ArgoClient

TEMPLATE = "lifecycle"


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_range(parser)
    add_access(parser)
    parser.add_argument("--image-tag", metavar="TAG", help="tag of the images (default: the profile's)")
    parser.add_argument("--priority", metavar="CLASS", help="PriorityClass of the pods, one of the profile's")
    parser.add_argument("--watch", action="store_true", help="then follow it, like argosy watch")
    parser.add_argument("--wait", type=not_negative, default=60, metavar="SECONDS",
                        help="wait at most so long for its plan, which refuses what cannot run, such as a budget that "
                        "will not do (default: 60; 0: do not wait)")


def run(args: argparse.Namespace) -> int:
    """Check the config as `argosy run` does, submit, print links."""
    from workflows.argo.client.submission import check_files

    config = load_config(args)
    # Names and order; whether the stages before are done, the cluster's plan finds out.
    stage_range(list(dict.fromkeys(node.name for node in lifecycle(config))), args.first, args.last)
    check_files(config)
    given = {"from": args.first, "to": args.last, "image-tag": args.image_tag, "priority": args.priority}
    client, name = start(args, TEMPLATE, config_parameters(args) | {key: each for key, each in given.items() if each})
    if args.wait and not args.watch:
        _await_plan(client, name, args)
    return follow(client, name, args) if args.watch else 0


def _await_plan(client: "ArgoClient", name: str, args: argparse.Namespace) -> None:
    """Print what the workflow's plan says. Raises InputError, StepError: it refuses, or fails."""
    from workflows.argo.client.api import ApiError
    from workflows.argo.client.view import OVER
    from workflows.argo.client.watch import await_plan, reason

    after = with_access(args, name)
    try:
        found = await_plan(client, name, args.wait)
    except ApiError as error:  # it is submitted all the same
        print(f"note: {error}; the plan may yet refuse: 'argosy watch {after}'", file=sys.stderr)
        return
    plan = found.plan
    if plan and plan.state == "done":
        print(found.plan_line)
    elif found.over or (plan and plan.state in OVER):
        why = reason(plan) if plan else found.status.get("message", "")
        raise (InputError if found.exit_code == InputError.exit_code else StepError)(f"the plan of {name}: {why}")
    else:
        waits = f" ({plan.waits})" if plan and plan.waits else ""
        print(f"note: the plan has not ended after {args.wait} s{waits}, and may yet refuse: 'argosy watch {after}'",
              file=sys.stderr)


COMMAND = Command("submit", "start the lifecycle on a cluster", 100, configure, run, f"{OVERRIDES}\n\n{MORE}")
