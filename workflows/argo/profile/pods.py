"""Parts of every pod of a profile, in plain data: Hera checks those of templates, JobSets take them as they are."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.nodes.bad import bad_nodes
from workflows.argo.profile.profile import Profile, config_map

Manifest = dict[str, Any]
COMMAND = ("python", "-m", "workflows.argo.pod")
PROFILES_AT = "/etc/argosy/profiles"
STORE, SCRATCH, PROFILES, CACHE = "store", "scratch", "profiles", "near"
WORKFLOW_LABEL = "argosy/workflow"
NO_NODE = "no-node"  # a name that no node has, so that the list is never empty, which Kubernetes refuses
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
NO_RIGHTS: Mapping[str, Any] = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
                                "capabilities": {"drop": ["ALL"]}}  # fmt: skip


def environment(profile: Profile) -> dict[str, str]:
    """Return the variables of every container."""
    tracking = {"MLFLOW_TRACKING_URI": profile.tracking.uri} if profile.tracking.uri else {}
    return {"HOME": "/tmp", "ARGOSY_PROFILES": PROFILES_AT, "MLFLOW_DISABLE_TELEMETRY": "true", **tracking,
            **profile.defaults.env}


def mounts(profile: Profile) -> list[Manifest]:
    """List the places of the volumes in every container."""
    cache = profile.storage.cache
    return [{"name": STORE, "mountPath": profile.storage.mount_path}, {"name": SCRATCH, "mountPath": "/tmp"},
            {"name": PROFILES, "mountPath": PROFILES_AT, "readOnly": True},
            *([{"name": CACHE, "mountPath": cache.path}] if cache else []),
            *map(dict, profile.defaults.volume_mounts)]  # fmt: skip


def volumes(profile: Profile, named: str) -> list[Manifest]:
    """List the volumes of every pod: the store, a place for temporary files, the profile of the name `named`."""
    storage, cache = profile.storage, profile.storage.cache
    if storage.claim:
        store: Manifest = {"persistentVolumeClaim": {"claimName": storage.claim}}
    elif storage.uri:  # of which it holds a part
        store = {"emptyDir": {"sizeLimit": storage.scratch} if storage.scratch else {}}
    else:
        store = _directory(storage.node_directory)
    return [{"name": STORE, **store}, {"name": SCRATCH, "emptyDir": {}},
            {"name": PROFILES, "configMap": {"name": config_map(named), "optional": True}},
            *([{"name": CACHE, **_directory(cache.host_path)}] if cache else []),
            *map(dict, profile.defaults.volumes)]  # fmt: skip


def _directory(path: str) -> Manifest:
    return {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def avoided(profile: Profile, store: Path | str) -> list[str]:
    """List the nodes that pods are not to be on, by the records of a store, after NO_NODE; [] where none are kept."""
    given = profile.bad_nodes
    most = (0 if profile.storage.host_path else 1) if given.most is None else given.most
    if not given.fresh_s or not most:
        return []
    names = [str(each["node"]) for each in bad_nodes(store, given.fresh_s)]
    fit = [name for name in names if _NAME.fullmatch(name)]
    if left := [*fit[most:], *(name for name in names if name not in fit)]:
        print(f"bad_nodes: pods may be on {', '.join(left)}, which failed: {most} others failed later "
              "(bad_nodes.most), or the name is none of Kubernetes", flush=True)
    return [NO_NODE, *fit[:most]]


def near(labels: Sequence[str], workflow: str) -> Manifest:
    """Make the part of a pod's affinity that has the pods of a workflow's JobSet on nodes of equal labels, the last
    label's most; {} of none."""
    selector = {"matchLabels": {WORKFLOW_LABEL: workflow}}
    terms = [{"weight": 100 * rank // len(labels), "podAffinityTerm": {"labelSelector": selector, "topologyKey": label}}
             for rank, label in enumerate(labels, 1)]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}} if terms else {}


def away(nodes: list[str]) -> Manifest:
    """Make the part of a pod's spec that keeps it off some nodes; {} of none."""
    terms = {"nodeSelectorTerms": [{"matchFields": not_on(nodes)}]}
    own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"affinity": own} if nodes else {}


def not_on(nodes: list[str]) -> list[Manifest]:
    """Exclude nodes by name, not by a label that may differ: one at a time, as the field takes one value."""
    return [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]


def settings(profile: Profile) -> Manifest:
    """Return the account, the user and the scheduler of every pod. What steps run has no token."""
    ids, secrets = profile.user, profile.images.pull_secrets
    return {"serviceAccountName": profile.service_account, "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": ids, "runAsGroup": ids, "fsGroup": ids,
                                "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}},
            **({"schedulerName": profile.scheduler} if profile.scheduler else {}),
            **({"imagePullSecrets": [{"name": each} for each in secrets]} if secrets else {})}  # fmt: skip


def whole_pod(profile: Profile, patch: Manifest, memory_mb: int, args: Sequence[str], env: Mapping[str, str]
              ) -> Manifest:
    """Make a pod's spec as a template's container and its `patch` make it together. `env`: more variables."""
    (own,) = patch["containers"]
    memory, given = {"memory": f"{memory_mb}Mi"}, {**environment(profile), **env}
    main = {**own, "imagePullPolicy": profile.images.pull_policy, "command": list(COMMAND), "args": list(args),
            "securityContext": {**NO_RIGHTS, **own.get("securityContext", {})},
            "env": _joined("name", [{"name": key, "value": value} for key, value in given.items()], own["env"]),
            "resources": {kind: {**each, **memory} for kind, each in own["resources"].items()},
            "volumeMounts": _joined("mountPath", mounts(profile), own.get("volumeMounts", []))}
    return {**settings(profile), **patch, "containers": [main],
            "volumes": _joined("name", volumes(profile, profile.name), patch.get("volumes", []))}


def _joined(key: str, below: Sequence[Manifest], above: Sequence[Manifest]) -> list[Manifest]:
    """Join two lists as a strategic merge patch does: of equal keys the second one's stays. Defaults are in both."""
    return list({each[key]: each for each in (*below, *above)}.values())
