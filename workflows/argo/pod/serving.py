"""The pods that serve what an alias of the registry names, and their roll to a new one when the alias has moved.

The Deployment's pod template names the checkpoint, so pods of one roll serve the same one, whenever they start. The
reconciler writes it there, and a policy (argo-install/components/reconciler/rolls.yaml) lets it change nothing else."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from argosy.core.errors import InputError
from workflows.argo.profile.profile import Profile
from workflows.argo.profile.settings import Serving
from workflows.stored.registry import MODELS, named_by

if TYPE_CHECKING:
    from workflows.argo.client.api import Transport

DEPLOYMENT = "argosy-serve"
CHECKPOINT = "argosy/checkpoint"  # annotation of the pods: its directory, below the store
ROLL_RULES = [{"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": [DEPLOYMENT],
               "verbs": ["get", "patch"]}]  # fmt: skip
_ARGOSY = "import sys; from workflows.cli import main; sys.exit(main())"
PORT, LINGER_S, KEYS_AT = 8000, 10, "/etc/argosy/keys"


def serve(profile: Profile, arguments: argparse.Namespace) -> NoReturn:
    """Become `argosy serve` of a checkpoint. Raises InputError: no alias has named one yet."""
    from workflows.argo.objectstore import pods

    given, place = profile.serving, Path(profile.storage.root, arguments.checkpoint)
    if given is None or not arguments.checkpoint:
        raise InputError(f"{DEPLOYMENT} has no checkpoint yet: 'argosy promote' lets the alias name one, and the "
                         "reconciler tells these pods")
    pods.serving(profile, arguments.checkpoint)
    # The store is for reading: logs of another engine are in /tmp.
    options = {"store": "/tmp", "host": "0.0.0.0", "port": PORT, "keys": f"{KEYS_AT}/keys", "linger": LINGER_S,
               "drain": given.drain_s}
    os.execv(sys.executable, [sys.executable, "-c", _ARGOSY, "serve", f"{given.model}={place}",
                              *(f"--{name}={value}" for name, value in options.items()), *given.arguments])


def roll(profile: Profile, given: Serving, api: "Transport") -> None:
    """Let the Deployment's pods serve what the alias names, one after the other.

    Raises:
        InputError: the alias names nothing, or a checkpoint that is not in the store of these pods.
        StepError, ApiError: MLflow or Kubernetes does not answer."""
    from workflows.argo.client.api import MERGE

    store, name = Path(profile.storage.root), f"{MODELS}{given.model}@{given.alias}"
    version = named_by(name, store, profile.tracking.uri)
    root = (profile.storage.uri or str(store)).rstrip("/") + "/"
    if not version.path.startswith(root) or ".." in version.path.split("/"):
        raise InputError(f"{name} is at {version.path}, which is not below {root}: {DEPLOYMENT} stays as it is")
    place = version.path.removeprefix(root)
    at = f"/apis/apps/v1/namespaces/{profile.namespace}/deployments/{DEPLOYMENT}"
    there = api.ask("GET", at)["spec"]["template"]["metadata"].get("annotations") or {}
    if there.get(CHECKPOINT) != place:
        # `kubectl rollout history` shows the cause.
        cause = {"kubernetes.io/change-cause": f"{name}, version {version.version}: {place}"}
        api.ask("PATCH", at, {"metadata": {"annotations": cause}, "spec": {"template": {"metadata": {
            "annotations": {CHECKPOINT: place}}}}}, kind=MERGE)  # fmt: skip
        print(f"{DEPLOYMENT} rolls to {place} ({name}, version {version.version})", flush=True)
