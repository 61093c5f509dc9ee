"""`argosy doctor`: what a cluster lacks, and how to fix it; `argosy doctor nodes`: which machine of a job is bad;
`argosy doctor bad`: which nodes failed."""

import argparse
import contextlib
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

from argosy.core.errors import InputError
from argosy.core.nodes import command as nodes
from argosy.core.nodes.bad import bad_nodes, clear_bad
from workflows.argo.profile.profile import load_profile, profile_names
from workflows.cli.cluster import add_access, connected, named_profile, profile_name, profile_of
from workflows.cli.command import Command
from workflows.cli.submit import TEMPLATE

if TYPE_CHECKING:
    from workflows.argo.client.api import ArgoClient
    from workflows.argo.doctor import Cluster

DEFAULT_PROFILE = "laptop"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("cluster", "nodes", "bad"), default="cluster",
                        help="nodes: this machine, and all processes of the job that RANK, WORLD_SIZE and MASTER_ADDR, "
                             "or Slurm's variables, name; bad: the nodes that failed, by a store's records (default: "
                             "cluster)")  # fmt: skip
    parser.add_argument("--store", default="runs", metavar="DIR", help="bad: the store, a directory or a URI such as "
                        "s3://argosy/runs (default: ./runs)")
    parser.add_argument("--clear", default="", metavar="NODE", help="bad: remove the record of a node, which pods may "
                        "be on again")
    add_access(parser)
    nodes.configure(parser)


def run(args: argparse.Namespace) -> int:
    if args.clear and args.what == "nodes":
        raise InputError(f"--clear is {args.clear!r}, allowed with 'argosy doctor bad' alone")
    if args.what == "nodes":
        return nodes.check_nodes(args)
    if args.what == "bad" or args.clear:
        return _bad(args)
    from workflows.argo.doctor import examine

    client = connected(args)
    cluster = _cluster(args, client)
    print(f"profile {cluster.profile.name}, namespace {cluster.namespace}", flush=True)
    if not client.has_namespace():
        print(f"FAIL  namespace   there is no namespace {cluster.namespace}\n{'':18}fix: kubectl create namespace "
              f"{cluster.namespace}, or name another --namespace", flush=True)
        return 1
    counts: Counter[str] = Counter()
    for name, found in examine(cluster):
        counts[found.state] += 1
        print(f"{found.state:4}  {name:10}  {found.what}", flush=True)
        if found.fix and found.state != "ok":
            print(f"{'':18}fix: {found.fix}", flush=True)
    print(", ".join(f"{counts[state]} {state}" for state in ("ok", "warn", "FAIL") if counts[state]))
    return int(counts["FAIL"] > 0)


def _bad(args: argparse.Namespace) -> int:
    """Clear a node, or print a line for each that failed, the last one first; return 0."""
    if args.clear:
        clear_bad(args.store, args.clear)
        print(f"{args.clear} has no record any more")
        return 0
    if "://" not in args.store and not os.path.isdir(args.store):
        raise InputError(f"--store is {args.store!r}, where nothing has run: name a directory, or a URI")
    found = bad_nodes(args.store)
    for each in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each["time"]))
        print(f"{when}  {each['node']}  {each['run']} rank {each['rank']}, {each['cause']}: {each['why']}")
    if not found:
        print(f"no node has a record in {args.store}")
    return 0


def _cluster(args: argparse.Namespace, client: "ArgoClient") -> "Cluster":
    from workflows.argo.client.api import ApiError
    from workflows.argo.client.submission import default_of
    from workflows.argo.doctor import Cluster

    profile, name = named_profile(args), profile_name(args) or DEFAULT_PROFILE
    if profile is None:
        with contextlib.suppress(ApiError):  # a check reports it
            found = default_of(client.template(TEMPLATE), "profile")
            profile = profile_of(args, client, found)
            name = found if found in profile_names() else "FILE"  # the cluster's own
    return Cluster(client.transport, client.namespace, profile or load_profile(DEFAULT_PROFILE), name)


COMMAND = Command("doctor", "find what a cluster lacks, or which machine is bad", 120, configure, run)
