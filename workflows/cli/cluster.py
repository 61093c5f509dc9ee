"""Options of the commands that speak with a cluster, and the submission of a workflow there."""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from argosy.core.errors import InputError
from workflows.cli.command import checked

if TYPE_CHECKING:
    from workflows.argo.client.api import ArgoClient
    from workflows.argo.client.view import Json, View
    from workflows.argo.profile.profile import Profile


# An empty value, such as of an unset shell variable, would quietly mean another cluster.
_given = checked(str, "a value, or leave the option out for its default", bool)
PLACES = ("local", "argo")
_OPTIONS = ("profile", "namespace", "context", "insecure")
MORE = """which cluster:
  the kubeconfig's context, as kubectl uses it (KUBECONFIG, --context). The namespace is --namespace, else
  ARGO_NAMESPACE, the profile's, the context's, or argosy."""


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add --on and the options of a cluster, for a command that works on this machine too."""
    parser.add_argument("--on", choices=PLACES, help="this machine or a cluster (default: ARGOSY_ON, else local)")
    add_access(parser)


def add_access(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument("--profile", type=_given, metavar="NAME|FILE",
                       help="cluster profile (default: ARGOSY_PROFILE, else the cluster's)")
    group.add_argument("--namespace", type=_given, metavar="NAME",
                       help="namespace of the workflows (default: the profile's)")
    group.add_argument("--context", type=_given, metavar="NAME", help="context of the kubeconfig")
    group.add_argument("--insecure", action="store_true", help="do not verify the certificate")


def on_argo(args: argparse.Namespace) -> bool:
    """Tell whether the command is about a cluster. Raises InputError: ARGOSY_ON is wrong, or an option of the cluster
    is given without one."""
    place = args.on or os.environ.get("ARGOSY_ON") or "local"
    if place not in PLACES:
        raise InputError(f"ARGOSY_ON is {place!r}, allowed: {', '.join(PLACES)}")
    given = [f"--{name}" for name in _OPTIONS if getattr(args, name)]
    if place == "local" and given:
        raise InputError(f"{', '.join(given)} is for a cluster: add --on argo")
    return str(place) == "argo"


def connected(args: argparse.Namespace) -> "ArgoClient":
    """Connect to the cluster that the options name. Raises InputError, ApiError."""
    from workflows.argo.client.api import connect

    profile = named_profile(args)
    namespace = args.namespace or os.environ.get("ARGO_NAMESPACE") or (profile.namespace if profile else "")
    return connect(namespace, args.context or "", insecure=args.insecure)


def named_profile(args: argparse.Namespace) -> "Profile | None":
    from workflows.argo.profile.profile import load_profile

    name = profile_name(args)
    return load_profile(name) if name else None


def profile_name(args: argparse.Namespace) -> str:
    """Return the name or file of --profile or ARGOSY_PROFILE; "" where neither is given."""
    return str(args.profile or os.environ.get("ARGOSY_PROFILE") or "")


def profile_of(args: argparse.Namespace, client: "ArgoClient", name: str) -> "Profile | None":
    """Choose the named profile; else the cluster's own of this name, else the shipped one; None without any."""
    import yaml

    from argosy.core.config.load import load
    from workflows.argo.profile.profile import Profile, load_profile, profile_names

    if found := named_profile(args):
        return found
    if name and (text := client.profile(name)):
        return load(Profile, [{"name": name}, yaml.safe_load(text)])
    return load_profile(name) if name in profile_names() else None


def report_link(profile: "Profile | None", namespace: str, found: "View") -> str:
    """Link to the report in the UI, an artifact of the last node; "" where it is none."""
    for node in found.nodes.values():
        for artifact in (node.get("outputs") or {}).get("artifacts") or []:
            if profile and profile.tracking.argo_url and node["type"] == "Pod" and artifact["name"] == "report":
                base = profile.tracking.argo_url.rstrip("/")
                return f"{base}/artifact-files/{namespace}/workflows/{found.name}/{node['id']}/outputs/report"
    return ""


def with_access(args: argparse.Namespace, name: str) -> str:
    """Append to `name` the options that another command needs to find the same cluster."""
    given = [f" --{key} {getattr(args, key)}" for key in _OPTIONS[:3] if getattr(args, key)]
    return name + "".join(given) + (" --insecure" if args.insecure else "")


def start(args: argparse.Namespace, template: str, parameters: Mapping[str, str]) -> "tuple[ArgoClient, str]":
    """Submit; return the cluster and the workflow's name. Raises InputError: there is no such template, or it does not
    take the parameters or the profile; ApiError: the cluster does not answer, or refuses."""
    from workflows.argo.client.submission import check_parameters, default_of, profile_notes, submission

    client = connected(args)
    installed = _template(client, template, args)
    profile, given = profile_of(args, client, default_of(installed, "profile")), dict(parameters)
    if profile and named_profile(args):
        given["profile"] = profile.name
        for note in profile_notes(installed, profile, client.profile(profile.name), install_commands(args)):
            print(f"note: {note}", file=sys.stderr)
    check_parameters(installed, given)
    name = str(client.submit(submission(template, client.namespace, given))["metadata"]["name"])
    print(f"submitted {name} in namespace {client.namespace}")
    print_links(args, client, profile, name)
    return client, name


def print_links(args: argparse.Namespace, client: "ArgoClient", profile: "Profile | None", name: str) -> None:
    if profile and profile.tracking.argo_url:
        print(f"Argo:   {profile.tracking.argo_url.rstrip('/')}/workflows/{client.namespace}/{name}")
    if profile and profile.tracking.url:
        print(f"MLflow: {profile.tracking.url}")
    print(f"watch:  argosy watch {with_access(args, name)}", flush=True)


def install_commands(args: argparse.Namespace) -> str:
    """Return the commands that install our manifests; a profile's folder has the profile's name, not its file's."""
    profile = named_profile(args)
    file, name = (profile_name(args), profile.name) if profile else ("NAME", "NAME")
    return f"'argosy manifests --profile {file} --out DIR' and 'kubectl apply -k DIR/{name}'"


def _template(client: "ArgoClient", name: str, args: argparse.Namespace) -> "Json":
    from workflows.argo.client.api import ApiError

    try:
        return client.template(name)
    except ApiError as error:
        if error.status != 404:
            raise
    raise client.absent(f"WorkflowTemplate {name!r}", "install ours there, from a profile that names the namespace, "
                        f"with {install_commands(args)}, or name another --namespace; 'argosy doctor' finds what else "
                        "is missing")  # fmt: skip
