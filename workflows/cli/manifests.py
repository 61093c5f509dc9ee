"""`argosy manifests`: write a cluster's manifests as YAML."""

import argparse
from pathlib import Path

from workflows.cli.command import Command


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default="all", metavar="NAME|FILE|all", help="cluster profile (default: all)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="folder, in which each profile gets a folder")


def run(args: argparse.Namespace) -> int:
    from workflows.argo.manifests.documents import write_manifests
    from workflows.argo.profile.profile import load_profile, profile_names

    for name in profile_names() if args.profile == "all" else [args.profile]:
        profile = load_profile(name)
        for path in write_manifests(profile, args.out / profile.name):
            print(path)
    return 0


COMMAND = Command("manifests", "write a cluster's manifests as YAML", 110, configure, run)
