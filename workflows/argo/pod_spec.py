"""What a stage's pods get beyond the template: a patch of the pod's spec, made by the plan from the profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from argosy.environment import thread_environment
from workflows.argo.profile import Profile
from workflows.argo.profile_placement import Devices, Placement
from workflows.node import Resources

MEMORY = "__MEMORY__"  # filled in by the template, which knows whether the last attempt ran out of it
SHM = "shm"


def pod_patch(profile: Profile, stage: str, needs: str, resources: Resources, tag: str = "") -> dict[str, Any]:
    """The strategic merge patch of a pod of `stage`, as a JSON object. Its memory is MEMORY."""
    placement = profile.of_stage(stage)
    main: dict[str, Any] = {
        "name": "main",
        "image": profile.images.of(needs, tag),
        "resources": _resources(placement, resources),
        "env": list(_environment(placement, resources)),
    }
    if placement.secrets:
        main["envFrom"] = [{"secretRef": {"name": name}} for name in placement.secrets]
    mounts, volumes = list(placement.volume_mounts), list(placement.volumes)
    if placement.devices.shm:
        mounts.append({"name": SHM, "mountPath": "/dev/shm"})
        volumes.append({"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": placement.devices.shm}})
    if mounts:
        main["volumeMounts"] = [dict(mount) for mount in mounts]
    if placement.devices.rdma:
        main["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}}
    grace = {"terminationGracePeriodSeconds": profile.storage.grace_s} if profile.storage.uri else {}
    return {"containers": [main], **grace, **_pod(placement, volumes)}


def memory_mb(profile: Profile, stage: str, resources: Resources) -> int:
    """Memory of a pod of `stage` in its first attempt, in MiB."""
    own = profile.of_stage(stage).memory
    return mebibytes(own) if own else max(64, round(resources.memory_gb * 1e9 / 2**20))


def mebibytes(quantity: str) -> int:
    """A Kubernetes quantity of bytes in MiB."""
    units = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": 1e-3}
    number = quantity.rstrip("mkMGTi")
    return max(1, round(float(number) * units.get(quantity[len(number) :], 1) / 2**20))


def _resources(placement: Placement, resources: Resources) -> dict[str, Any]:
    devices = _device_counts(placement.devices)
    requests = {"cpu": placement.cpu or str(resources.cores), "memory": MEMORY, **devices}
    limits = {"memory": MEMORY, **devices}
    if placement.ephemeral_storage:
        requests["ephemeral-storage"] = limits["ephemeral-storage"] = placement.ephemeral_storage
    return {"requests": requests, "limits": limits}


def _device_counts(devices: Devices) -> dict[str, str]:
    gpus = {devices.resource: str(devices.gpus)} if devices.gpus else {}
    return gpus | {name: str(count) for name, count in devices.rdma.items()}


def _environment(placement: Placement, resources: Resources) -> Iterator[Mapping[str, str]]:
    for name, value in {**thread_environment(resources.cores), **placement.env}.items():
        yield {"name": name, "value": value}


def _pod(placement: Placement, volumes: list[Mapping[str, Any]]) -> dict[str, Any]:
    found = {
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [dict(each) for each in placement.tolerations],
        "volumes": [dict(each) for each in volumes],
        "runtimeClassName": placement.runtime_class,
        "activeDeadlineSeconds": placement.deadline_s,
    }
    return {key: value for key, value in found.items() if value}
