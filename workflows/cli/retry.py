"""`argosy retry`: run failed and stopped nodes of a workflow again."""

import argparse

from argosy.core.errors import InputError
from workflows.cli.cluster import MORE, add_access, connected, print_links, profile_of, with_access
from workflows.cli.command import Command
from workflows.cli.watch import follow


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="WORKFLOW", help="workflow to continue")
    add_access(parser)
    parser.add_argument("--watch", action="store_true", help="then follow it, like argosy watch")


def run(args: argparse.Namespace) -> int:
    """Submit the same again: finished steps are skipped."""
    from workflows.argo.client.submission import same_again
    from workflows.argo.client.view import view

    client = connected(args)
    found = view(client.find(args.name))
    if not found.over:
        raise InputError(f"{args.name} is not over: 'argosy watch {with_access(args, args.name)}' follows it")
    if found.phase == "Succeeded":
        raise InputError(f"{args.name} has succeeded: there is nothing to run again")
    if found.exit_code == InputError.exit_code:
        raise InputError(f"{args.name} was refused for wrong input, which a retry does not fix: "
                         f"'argosy watch {with_access(args, args.name)}' names the cause; correct it and submit again")
    name = str(client.submit(same_again(found.workflow))["metadata"]["name"])
    print(f"submitted {name} with the parameters of {args.name}; finished steps are not repeated")
    print_links(args, client, profile_of(args, client, found.parameters.get("profile", "")), name)
    return follow(client, name, args) if args.watch else 0


COMMAND = Command("retry", "run failed and stopped nodes of a workflow again", 103, configure, run, MORE)
