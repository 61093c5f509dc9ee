"""Options of the commands that speak with a cluster, and what they make of them."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from argosy.errors import InputError

if TYPE_CHECKING:
    from workflows.argo.client import ArgoClient
    from workflows.argo.client_workflow import View
    from workflows.argo.profile import Profile

PLACES = ("local", "argo")
_OPTIONS = ("profile", "namespace", "context", "server", "insecure")
MORE = """which cluster:
  the kubeconfig's context, as kubectl uses it (KUBECONFIG, --context), or an Argo server: --server URL (or ARGO_SERVER)
  with ARGO_TOKEN. The namespace is --namespace, else ARGO_NAMESPACE, the profile's, the context's, or argosy."""


def add_cluster(parser: argparse.ArgumentParser, default: str) -> None:
    """--on, with `default` where ARGOSY_ON does not say another, and how to reach the cluster."""
    parser.add_argument("--on", choices=PLACES, help=f"where (default: ARGOSY_ON, else {default})")
    parser.set_defaults(default_on=default)
    add_access(parser)


def add_access(parser: argparse.ArgumentParser) -> None:
    """How to reach a cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--profile", type=_given, metavar="NAME|FILE",
                       help="cluster profile (default: ARGOSY_PROFILE, else its own)")
    group.add_argument("--namespace", type=_given, metavar="NAME", help="where workflows are (default: the profile's)")
    group.add_argument("--context", type=_given, metavar="NAME", help="of the kubeconfig")
    group.add_argument("--server", type=_given, metavar="URL",
                       help="of an Argo server (default: ARGO_SERVER); token: ARGO_TOKEN")
    group.add_argument("--insecure", action="store_true", help="do not check the certificate")


def _given(text: str) -> str:
    """An empty value, such as of a shell variable that is not set, would quietly mean another cluster."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"is {text!r}, allowed: a value, or leave the option out for its default")
    return text


def on_argo(args: argparse.Namespace) -> bool:
    """Whether the command is about a cluster.

    Raises:
        InputError: ARGOSY_ON is wrong, or an option of the cluster is given without one.
    """
    place = args.on or os.environ.get("ARGOSY_ON") or args.default_on
    if place not in PLACES:
        raise InputError(f"ARGOSY_ON is {place!r}, allowed: {', '.join(PLACES)}")
    given = [f"--{name}" for name in _OPTIONS if getattr(args, name)]
    if place == "local" and given:
        raise InputError(f"{', '.join(given)} is about a cluster: add --on argo")
    return str(place) == "argo"


def need_argo(args: argparse.Namespace, instead: str) -> None:
    """Raises InputError, with what to type `instead`, where the command is not about a cluster."""
    if not on_argo(args):
        raise InputError(f"this is for workflows on a cluster (--on argo); on this machine, {instead}")


def connected(args: argparse.Namespace) -> ArgoClient:
    """The cluster that the options name. Raises InputError, ApiError."""
    from workflows.argo.client import Access, connect

    profile = named_profile(args)
    namespace = args.namespace or os.environ.get("ARGO_NAMESPACE") or (profile.namespace if profile else "")
    return connect(Access(namespace, args.context or "", args.server or "", args.insecure))


def named_profile(args: argparse.Namespace) -> Profile | None:
    """That of --profile or ARGOSY_PROFILE."""
    from workflows.argo.profile_load import load_profile

    name = profile_name(args)
    return load_profile(name) if name else None


def profile_name(args: argparse.Namespace) -> str:
    """The name or file of --profile or ARGOSY_PROFILE; "" where neither is given."""
    return str(args.profile or os.environ.get("ARGOSY_PROFILE") or "")


def profile_of(args: argparse.Namespace, client: ArgoClient, name: str) -> Profile | None:
    """The named profile; else the cluster's own of this name, else the shipped one; None where nobody has it."""
    import yaml

    from argosy.config_load import load
    from workflows.argo.profile import Profile
    from workflows.argo.profile_load import load_profile, profile_names

    if found := named_profile(args):
        return found
    if name and (text := client.profile(name)):
        return load(Profile, [{"name": name}, yaml.safe_load(text)])
    return load_profile(name) if name in profile_names() else None


def links(profile: Profile | None, namespace: str, name: str) -> list[str]:
    """Where a person sees the workflow and its metrics."""
    if profile is None:
        return []
    found, urls = [], profile.tracking
    if urls.argo_url:
        found.append(f"Argo:   {urls.argo_url.rstrip('/')}/workflows/{namespace}/{name}")
    if urls.url:
        found.append(f"MLflow: {urls.url}")
    return found


def report_link(profile: Profile | None, namespace: str, found: View) -> str:
    """Where the UI serves the report, which is an artifact of the last node; "" where it is none."""
    for node in found.nodes.values():
        for artifact in (node.get("outputs") or {}).get("artifacts") or []:
            if profile and profile.tracking.argo_url and node["type"] == "Pod" and artifact["name"] == "report":
                base = profile.tracking.argo_url.rstrip("/")
                return f"{base}/artifact-files/{namespace}/workflows/{found.name}/{node['id']}/outputs/report"
    return ""


def again(args: argparse.Namespace, name: str) -> str:
    """`name` with the options that another command needs to find the same cluster."""
    given = [f" --{key} {getattr(args, key)}" for key in ("profile", "namespace", "context", "server")
             if getattr(args, key)]  # fmt: skip
    return name + "".join(given) + (" --insecure" if args.insecure else "")
