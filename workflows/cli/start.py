"""Start a workflow of one of our WorkflowTemplates, and say where to look: what `submit` and `nightly` do alike."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workflows.cli.cluster import again, connected, links, named_profile, profile_name, profile_of

if TYPE_CHECKING:
    from workflows.argo.client import ArgoClient
    from workflows.argo.client_http import Json
    from workflows.argo.profile import Profile


def start(args: argparse.Namespace, template: str, parameters: Mapping[str, str]) -> tuple[ArgoClient, str]:
    """Submit; returns the cluster and the workflow's name.

    Raises:
        InputError: there is no such template, or it does not take the parameters or the profile.
        ApiError: the cluster does not answer, or refuses.
    """
    from workflows.argo.client_submission import check_parameters, submission
    from workflows.argo.profile_check import default_of

    client = connected(args)
    installed = _template(client, template, args)
    profile, given = profile_of(args, client, default_of(installed, "profile")), dict(parameters)
    if profile and named_profile(args):
        given["profile"] = profile.name
        _check_profile(client, installed, profile, args)
    check_parameters(installed, given)
    name = str(client.submit(submission(template, client.namespace, given))["metadata"]["name"])
    print(f"submitted {name} in namespace {client.namespace}")
    tell(args, client, profile, name)
    return client, name


def tell(args: argparse.Namespace, client: ArgoClient, profile: Profile | None, name: str) -> None:
    """Where a person sees the workflow, and how to follow it."""
    for line in [*links(profile, client.namespace, name), f"watch:  argosy watch {again(args, name)}"]:
        print(line, flush=True)


def install_commands(args: argparse.Namespace) -> str:
    """What installs our manifests; a profile's folder is called as the profile, not as its file."""
    profile = named_profile(args)
    file, name = (profile_name(args), profile.name) if profile else ("NAME", "NAME")
    return f"'argosy manifests --profile {file} --out DIR' and 'kubectl apply -k DIR/{name}'"


def _check_profile(client: ArgoClient, template: Json, profile: Profile, args: argparse.Namespace) -> None:
    from workflows.argo.profile_check import profile_notes

    for note in profile_notes(template, profile, client.profile(profile.name), install_commands(args)):
        print(f"note: {note}", file=sys.stderr)


def _template(client: ArgoClient, name: str, args: argparse.Namespace) -> Json:
    from workflows.argo.client_http import ApiError

    try:
        return client.template(name)
    except ApiError as error:
        if error.status != 404:
            raise
    raise client.absent(f"WorkflowTemplate {name!r}", "install ours there, from a profile that names the namespace, "
                        f"with {install_commands(args)}, or name another --namespace; 'argosy doctor' tells what else "
                        "is missing")  # fmt: skip
