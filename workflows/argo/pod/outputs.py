"""Outputs of pods: the plan's parameters (batches, each stage's patch), and the report for the UI as an artifact."""

import argparse
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import InputError
from argosy.core.nodes.bad import NODE_NAME
from argosy.core.step.machine import NVCC, needs
from argosy.core.step.process import GRACE, thread_environment
from argosy.core.step.ranks.launcher import ADDRESS, LOST, OWN_ADDRESS
from argosy.core.store.step_files import STATE
from workflows.argo.attempts import AVOID
from workflows.argo.handoff import FOLDER, Batch, Task, report_directory, write_output
from workflows.argo.objectstore.pods import reporting
from workflows.argo.pod.jobset import check_nodes, jobset, of_node
from workflows.argo.profile.pods import avoided, away, not_on
from workflows.argo.profile.profile import Profile, placement_stage
from workflows.argo.profile.settings import FABRICS, FORMS, Placement, amount
from workflows.graph import Resources, definition
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import Plan, PlannedNode
from workflows.stages import StageResources

MEMORY = "__MEMORY__"  # filled in by the template, which knows whether the last attempt ran out of it
JOBSETS = "jobsets"  # output of the plan: the JobSet of each task on several nodes
SHM = "shm"
REPORT_PAGE = "report.html"
_BUILDS = {"full": "it with `make images IMAGES=train` without BUILD_FLAGS", "own": "one of your own that has it",
           "vllm": "it with `make images IMAGES=vllm`"}
MOST_SUMMARY = 8000  # characters; a parameter is part of the Workflow object


def with_devices(config: LifecycleConfig, profile: Profile) -> LifecycleConfig:
    """Give each stage the GPUs of its pods, so that a training stage runs as one process for each.

    Where the config sets `resources.STAGE.gpus`, or a stage's `processes`, the pods get so many."""
    resources = dict(config.resources)
    alone = {stage: each.model_copy(update={"nodes": 1, "min_nodes": 0}) for stage, each in resources.items()}
    nodes = lifecycle(config.model_copy(update={"resources": alone}))
    for stage, node in {node.name: node for node in nodes}.items():
        gpus = profile.of_stage(placement_stage(stage, node.step)).devices.gpus
        own = resources.get(stage, StageResources())
        if not gpus or own.gpus is not None:
            continue
        if isinstance(node.config, ParallelConfig) and "processes" in node.config.model_fields_set:
            gpus = max(1, node.config.processes // own.nodes)
        resources[stage] = own.model_copy(update={"gpus": gpus})
    return config.model_copy(update={"resources": resources})


def pod_patch(profile: Profile, stage: str, needs: str, resources: Resources, tag: str = "") -> dict[str, Any]:
    """Make the strategic merge patch of a pod of `stage`, as a JSON object. Its memory is MEMORY."""
    placement = profile.of_stage(stage, spot=resources.spot)
    devices = placement.devices
    # A node's own name for itself is often 127.0.1.1.
    own = {NODE_NAME: "spec.nodeName", **({OWN_ADDRESS: "status.podIP"} if devices.host_network else {})}
    main: dict[str, Any] = {
        "name": "main", "image": profile.images.of(needs, tag), "resources": _size(profile, placement, resources),
        "env": [*({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()),
                *({"name": name, "value": value}
                for name, value in {**thread_environment(resources.cores), GRACE: f"{profile.storage.grace_s // 2}",
                                    **FABRICS[devices.fabric], **placement.env}.items())]}
    if placement.secrets:
        main["envFrom"] = [{"secretRef": {"name": name}} for name in placement.secrets]
    mounts, volumes = list(placement.volume_mounts), list(placement.volumes)
    if devices.shm:
        mounts.append({"name": SHM, "mountPath": "/dev/shm"})
        volumes.append({"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": devices.shm}})
    if mounts:
        main["volumeMounts"] = [dict(mount) for mount in mounts]
    if devices.rdma:
        main["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}}
    of_pod = {
        "terminationGracePeriodSeconds": profile.storage.grace_s,
        "nodeSelector": dict(placement.node_selector), "tolerations": [dict(each) for each in placement.tolerations],
        "volumes": [dict(each) for each in volumes], "runtimeClassName": placement.runtime_class,
        "activeDeadlineSeconds": placement.deadline_s,
        **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if devices.host_network else {})}
    return {"containers": [main], **{key: value for key, value in of_pod.items() if value}}


def _size(profile: Profile, placement: Placement, resources: Resources) -> dict[str, dict[str, str]]:
    """Make the requests and limits of a pod's container."""
    devices = placement.devices
    gpus = devices.gpus if resources.gpus is None else resources.gpus  # as the config or the profile sets them
    counts = {**({devices.resource: gpus} if gpus else {}), **devices.rdma}
    limits = {"memory": MEMORY, **{name: str(count) for name, count in counts.items()}}
    if placement.ephemeral_storage:
        limits["ephemeral-storage"] = placement.ephemeral_storage
    if devices.numa:
        limits["cpu"] = str(math.ceil(amount(placement.cpu) if placement.cpu else resources.cores))
    # Its share of the cores, unless the profile says how many.
    return {"requests": {"cpu": placement.cpu or f"{round(1000 * resources.cores * profile.cpu_share)}m", **limits},
            "limits": limits}


def memory_mb(profile: Profile, stage: str, resources: Resources) -> int:
    """Return the memory of a pod of `stage` in its first attempt, in MiB."""
    own = profile.of_stage(stage).memory
    return max(1, round(amount(own) / 2**20)) if own else max(64, round(resources.memory_gb * 1e9 / 2**20))


def write_outputs(planned: Plan, tasks: list[Task], batches: Mapping[str, Mapping[str, Batch]], profile: Profile,
                  arguments: argparse.Namespace, summary: str) -> None:
    """Write each task's batches, its pods' patch and memory, the JobSets, and the `summary` that the UI shows."""
    resources = {stage: _largest([node.resources for node in planned.nodes if node.name == stage])
                 for stage in {node.name for node in planned.nodes}}
    check_deadlines(planned.to_run, profile)
    check_nodes(planned.to_run, profile)
    check_images(planned.to_run, profile)
    needs = {node.name: definition(node.step).needs for node in planned.nodes}
    patches, memory, jobsets, avoid = {}, {}, {}, avoided(profile, Path(planned.store))
    for task in tasks:
        given, image = resources.get(task.stage, Resources()), needs.get(task.stage, task.needs)
        placed = task.placed
        if given.nodes > 1:
            for batch in batches[task.name]:
                pod = _patch(profile, placed, image, of_node(given), arguments, avoid)
                size = memory_mb(profile, placed, of_node(given))
                own = profile.images.of(image, arguments.image_tag)
                jobsets[task.name] = json.dumps(jobset(profile, task, batch, given.nodes, pod, size,
                                                       arguments.workflow, own))
            for node in planned.to_run:  # records of an earlier attempt that failed for good
                for name in (ADDRESS, LOST) if node.name == task.stage else ():
                    Path(node.dir, STATE, name).unlink(missing_ok=True)
            # The stage's own pod computes nothing: it is placed as of no stage, without devices and their nodes.
            placed, given = "", replace(given, cores=1, memory_gb=1.0, gpus=0, spot=False)
        patches[task.name] = json.dumps(_patch(profile, placed, image, given, arguments, avoid))
        memory[task.name] = str(memory_mb(profile, placed, given))
        write_output(arguments.outputs, task.parameter, json.dumps(list(batches[task.name])))
    for name, content in (("patches", patches), ("memory", memory), (JOBSETS, jobsets), (AVOID, not_on(avoid))):
        write_output(arguments.outputs, name, json.dumps(content))
    write_output(arguments.outputs, "summary", summary[:MOST_SUMMARY])


def _patch(profile: Profile, stage: str, needs: str, given: Resources, arguments: argparse.Namespace,
           avoid: list[str]) -> dict[str, Any]:
    patch = pod_patch(profile, stage, needs, given, arguments.image_tag)
    return patch | ({"priorityClassName": arguments.priority} if arguments.priority else {}) | away(avoid)


def check_deadlines(nodes: Sequence[PlannedNode], profile: Profile) -> None:
    """Check that training of a stated length ends before its pod and workflow are ended. Raises InputError: not so."""
    for node in nodes:
        for name, most in ((f"stages.{node.name}.deadline_s", profile.of_stage(node.name).deadline_s),
                           ("deadline_s", profile.deadline_s)):
            if most and 60 * node.most_minutes > most:
                raise InputError(f"{name} of the profile is {most}, and learn_then_ask may train for minutes="
                                 f"{node.most_minutes:g} in {node.id}: raise the first, or lower the second")


def check_images(nodes: Sequence[PlannedNode], profile: Profile) -> None:
    """Check that the train image holds what fields of the nodes need. Raises InputError: it does not."""
    images = profile.images
    for node in nodes if images.form != "own" else ():
        for field, thing, otherwise in needs(json.loads(node.config)):
            if thing in FORMS[images.form] or (thing == NVCC and not node.resources.gpus):
                continue
            form = next((name for name, things in FORMS.items() if thing in things), "own")
            raise InputError(f"{node.name}.{field} needs {thing}, which the image {images.train} of the profile "
                             f"{profile.name!r} lacks (images.form: {images.form}): build {_BUILDS[form]} "
                             f"(docs/install.md) and set images.form to {form}; or {otherwise}")


def _largest(given: Sequence[Resources]) -> Resources:
    """Size a pod for any of a stage's nodes, which may be of several model lines."""
    gpus = [each.gpus for each in given if each.gpus is not None]
    return Resources(max(each.cores for each in given), max(each.memory_gb for each in given),
                     max(each.processes for each in given), max(gpus, default=None),
                     nodes=max(each.nodes for each in given), spot=any(each.spot for each in given))


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Copy the report; return 0, also where there is none."""
    folder = Path(profile.storage.root) / FOLDER / arguments.workflow
    with reporting(profile, arguments.workflow):
        report = Path(report_directory(folder) or folder) / REPORT_PAGE
        if found := report.is_file():
            arguments.outputs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(report, arguments.outputs / REPORT_PAGE)
    print(f"report: {report}" if found else "there is no report")
    return 0
