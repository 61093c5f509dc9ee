"""The size of a stage's pod against that of a node."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from argosy.core.errors import InputError
from workflows.argo.profile.profile import Profile, placement_stage
from workflows.argo.profile.quantities import amount
from workflows.argo.profile.settings import Devices, Placement
from workflows.graph import Resources
from workflows.plan import PlannedNode

EXECUTOR = 0.05  # cores that Argo's own container beside each step asks for (argo-install/base/argo)


@dataclass(frozen=True)
class Room:
    """Cores, bytes of memory and devices that a pod asks for, or that a node has."""

    cpu: float
    memory: float
    devices: Mapping[str, float] = field(default_factory=dict)


def cores(profile: Profile, placement: Placement, resources: Resources) -> str:
    """Return the cores that a step's container asks for, as a quantity: its share, unless the profile says so many."""
    return placement.cpu or f"{round(1000 * resources.cores * profile.cpu_share)}m"


def device_counts(devices: Devices, gpus: int | None) -> dict[str, str]:
    """Count the node's GPUs, as its config or the profile sets them, and the profile's other devices."""
    gpus = devices.gpus if gpus is None else gpus
    return ({devices.resource: str(gpus)} if gpus else {}) | {name: str(count) for name, count in devices.rdma.items()}


def mebibytes(quantity: str) -> int:
    """Convert a Kubernetes quantity of bytes into MiB."""
    return max(1, round(amount(quantity) / 2**20))


def memory_mb(profile: Profile, stage: str, resources: Resources) -> int:
    """Return the memory of a pod of `stage` in its first attempt, in MiB."""
    own = profile.of_stage(stage).memory
    return mebibytes(own) if own else max(64, round(resources.memory_gb * 1e9 / 2**20))


def need(profile: Profile, stage: str, resources: Resources) -> Room:
    """Return what a pod of `stage` asks for, Argo's container with it."""
    placement = profile.of_stage(stage)
    devices = {name: float(count) for name, count in device_counts(placement.devices, resources.gpus).items()}
    cpu = amount(cores(profile, placement, resources)) + EXECUTOR
    return Room(cpu, memory_mb(profile, stage, resources) * 2.0**20, devices)


def too_large(stage: str, asked: Room, there: Room, where: str) -> str:
    """Return why a pod of `stage` does not fit; "" where it does."""
    if asked.cpu > there.cpu + 1e-9:
        return f"stage {stage} asks for {asked.cpu:g} cores ({EXECUTOR:g} of them Argo's), {where} has {there.cpu:g}"
    if asked.memory > there.memory:
        gib = asked.memory / 2**30
        return f"stage {stage} asks for {gib:.1f} GiB of memory, {where} has {there.memory / 2**30:.1f}"
    for name, count in asked.devices.items():
        if count > there.devices.get(name, 0):
            return f"stage {stage} asks for {count:g} {name}, {where} has {there.devices.get(name, 0):g}"
    return ""


def check_node(nodes: Iterable[PlannedNode], profile: Profile) -> None:
    """Refuse a plan with a pod that does not fit the node which all of its pods run on, where there is but that one.

    Raises InputError: it would wait for ever."""
    if not profile.storage.host_path:
        return  # other nodes may be larger; `argosy doctor` looks at all of them
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # the node's, not the limit of this pod
    here = Room(float(os.cpu_count() or 1), memory)
    stages = {node.name: (placement_stage(node.name, node.step), node.resources) for node in nodes}
    for stage, (place, resources) in stages.items():
        asked = need(profile, place, resources)
        if why := too_large(stage, Room(asked.cpu, asked.memory), here, "the node"):
            raise InputError(f"{why}, so that its pod would wait for ever: lower resources.{stage}.cores and "
                             f".memory_gb of the config, or stages.{place}.cpu, .memory or cpu_share of the profile")
