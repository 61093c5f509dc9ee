"""`argosy retry`: run what failed, or was stopped, again."""

from __future__ import annotations

import argparse

from argosy.errors import InputError
from workflows.cli.cluster import MORE, add_cluster, again, connected, need_argo, profile_of
from workflows.cli.command import Command
from workflows.cli.start import tell


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", metavar="WORKFLOW")
    add_cluster(parser, "argo")
    parser.add_argument("--watch", action="store_true", help="then follow it, as argosy watch does")


def run(args: argparse.Namespace) -> int:
    """Go on with the workflow (Argo server), or submit the same again (kubeconfig): what is done is skipped."""
    need_argo(args, "run 'argosy run' again")
    from workflows.argo.client_workflow import view

    client = connected(args)
    found = view(client.find(args.name))
    if not found.over:
        raise InputError(f"{args.name} is not over: 'argosy watch {again(args, args.name)}' follows it")
    if found.phase == "Succeeded":
        raise InputError(f"{args.name} has succeeded: there is nothing to run again")
    if found.exit_code == InputError.exit_code:
        raise InputError(f"{args.name} was refused for wrong input, which trying again does not mend: "
                         f"'argosy watch {again(args, args.name)}' says what is wrong; correct it and submit again")
    name = str(client.retry(found.workflow)["metadata"]["name"])
    again_ = f"submitted {name} with the parameters of {args.name}: what is done stays done, the rest goes on"
    print(f"{name} goes on" if name == found.name else again_)
    profile = profile_of(args, client, found.parameters.get("profile", ""))
    tell(args, client, profile, name)
    if not args.watch:
        return 0
    from workflows.cli.watch import follow

    return follow(client, name, args)


COMMAND = Command("retry", "run what failed in a workflow again", 103, configure, run, MORE)
