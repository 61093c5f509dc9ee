"""Tell MLflow how workflows ended whose exit handler could not: terminated, deleted, or MLflow was away."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from types import FrameType

from argosy.errors import Stopped
from workflows.argo.profile_load import load_profile
from workflows.argo.reconcile import Reconciler


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which store and namespace; whether to look once."""
    parser.add_argument("--profile", required=True)
    parser.add_argument("--once", action="store_true", help="look once, then end")


def run(arguments: argparse.Namespace) -> int:
    """0; 1 something is left since MLflow, or the API server, does not answer (with --once); 143 stopped."""
    from workflows.argo.client_kubernetes import KubernetesTransport

    profile = load_profile(arguments.profile)
    keep = max(profile.keep.success_s, profile.keep.failure_s)
    if profile.storage.uri:
        from workflows.argo.remote.reconciler import RemoteReconciler

        reconciler: Reconciler = RemoteReconciler(profile, KubernetesTransport(), keep)
    else:
        store = Path(profile.storage.root)
        reconciler = Reconciler(store, KubernetesTransport(), profile.namespace, keep, profile.cluster)
    if arguments.once:
        return 1 if reconciler.sweep() else 0
    signal.signal(signal.SIGTERM, _stop)
    try:
        reconciler.follow()
    except Stopped as stopped:
        return stopped.exit_code
    return 0


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped
