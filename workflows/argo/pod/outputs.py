"""Outputs of pods: the plan's parameters (batches, each stage's patch), and the report for the UI as artifacts."""

import argparse
import html
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.config.schema import ParallelConfig
from argosy.core.step.process import thread_environment
from argosy.core.store.files import make_directory, read_json, read_record, write_json
from workflows.argo.handoff import FOLDER, OUTPUTS, Batch, Task, read_handoff
from workflows.argo.objectstore.pods import reporting
from workflows.argo.pod.fit import cores, device_counts, memory_mb
from workflows.argo.profile.profile import Profile, placement_stage
from workflows.argo.profile.settings import Placement
from workflows.graph import Resources, definition
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import Plan
from workflows.stages import StageResources

MEMORY = "__MEMORY__"  # filled in by the template, which knows whether the last attempt ran out of it
SHM = "shm"
MOST_SUMMARY = 8000  # characters; a parameter is part of the Workflow object


def with_devices(config: LifecycleConfig, profile: Profile) -> LifecycleConfig:
    """Give each stage the GPUs of its pods, so that a training stage runs as one process for each.

    Where the config sets `resources.STAGE.gpus`, or a stage's `processes`, the pod gets so many."""
    resources = dict(config.resources)
    for stage, node in {node.name: node for node in lifecycle(config)}.items():
        gpus = profile.of_stage(placement_stage(stage, node.step)).devices.gpus
        own = resources.get(stage, StageResources())
        if not gpus or own.gpus is not None:
            continue
        if isinstance(node.config, ParallelConfig) and "processes" in node.config.model_fields_set:
            gpus = node.config.processes
        resources[stage] = own.model_copy(update={"gpus": gpus})
    return config.model_copy(update={"resources": resources})


def pod_patch(profile: Profile, stage: str, needs: str, resources: Resources, tag: str = "") -> dict[str, Any]:
    """Make the strategic merge patch of a pod of `stage`, as a JSON object. Its memory is MEMORY."""
    placement = profile.of_stage(stage)
    main: dict[str, Any] = {
        "name": "main", "image": profile.images.of(needs, tag), "resources": _resources(profile, placement, resources),
        "env": [{"name": name, "value": value}
                for name, value in {**thread_environment(resources.cores), **placement.env}.items()]
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


def _resources(profile: Profile, placement: Placement, resources: Resources) -> dict[str, Any]:
    devices = device_counts(placement.devices, resources.gpus)
    requests = {"cpu": cores(profile, placement, resources), "memory": MEMORY, **devices}
    limits = {"memory": MEMORY, **devices}
    if placement.ephemeral_storage:
        requests["ephemeral-storage"] = limits["ephemeral-storage"] = placement.ephemeral_storage
    return {"requests": requests, "limits": limits}


def _pod(placement: Placement, volumes: list[Mapping[str, Any]]) -> dict[str, Any]:
    found = {
        "nodeSelector": dict(placement.node_selector), "tolerations": [dict(each) for each in placement.tolerations],
        "volumes": [dict(each) for each in volumes], "runtimeClassName": placement.runtime_class,
        "activeDeadlineSeconds": placement.deadline_s
    }
    return {key: value for key, value in found.items() if value}


def write_outputs(
    planned: Plan, tasks: list[Task], batches: Mapping[str, Mapping[str, Batch]], profile: Profile,
    arguments: argparse.Namespace, summary: str,
) -> None:
    """Write each task's batches, its pods' patch and memory, and the `summary` that the UI shows of the plan."""
    resources = {stage: _largest([node.resources for node in planned.nodes if node.name == stage])
                 for stage in {node.name for node in planned.nodes}}
    needs = {node.name: definition(node.step).needs for node in planned.nodes}
    patches, memory = {}, {}
    for task in tasks:
        given = resources.get(task.stage, Resources())
        patch: dict[str, Any] = pod_patch(
            profile, task.placed, needs.get(task.stage, task.needs), given, arguments.image_tag
        )
        if arguments.priority:
            patch["priorityClassName"] = arguments.priority
        patches[task.name] = json.dumps(patch)
        memory[task.name] = str(memory_mb(profile, task.placed, given))
        write_output(arguments.outputs, task.parameter, json.dumps(list(batches[task.name])))
    write_output(arguments.outputs, "patches", json.dumps(patches))
    write_output(arguments.outputs, "memory", json.dumps(memory))
    write_output(arguments.outputs, "summary", summary[:MOST_SUMMARY])


def _largest(given: Sequence[Resources]) -> Resources:
    """Size a pod for any of a stage's nodes, which may be of several model lines."""
    gpus = [each.gpus for each in given if each.gpus is not None]
    return Resources(max(each.cores for each in given), max(each.memory_gb for each in given),
                     max(each.processes for each in given), max(gpus, default=None))


def write_output(folder: Path, name: str, text: str) -> None:
    """Write one output parameter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


FILE = "report.json"  # beside plan.json: the directory of a night's report
_STYLE = "body{font:14px sans-serif}td,th{padding:2px 10px;text-align:right}:first-child{text-align:left}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that the template fills in."""
    parser.add_argument("--outputs", type=Path, default=Path(OUTPUTS))


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Copy the report; return 0, also where there is none."""
    folder = Path(profile.storage.root) / FOLDER / arguments.workflow
    with reporting(profile, arguments.workflow):
        report = report_of(folder)
        if report is not None:
            arguments.outputs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(report / "report.html", arguments.outputs / "report.html")
            if (comparison := report / "comparison.json").is_file():
                (arguments.outputs / "comparison.html").write_text(table(read_json(comparison)), encoding="utf-8")
    print(f"report: {report}" if report else "there is no report")
    return 0


def note_report(folder: Path, report: Path) -> None:
    """Note that `report` is the directory of the report of `folder`'s workflow."""
    write_json(make_directory(folder) / FILE, {"report": str(report)})


def report_of(folder: Path) -> Path | None:
    """Find the directory of a workflow's report: a night's, else its comparison's; None before there is one."""
    found = read_record(folder / FILE).get("report")
    if not found and (plan := folder / "plan.json").is_file():
        found = read_handoff(plan).report
    return Path(found) if found and (Path(found) / "report.html").is_file() else None


def table(comparison: Mapping[str, Any]) -> str:
    """Render the measures of the last checkpoint of each stage as a page: a row a measure, a column a checkpoint."""
    last = {name: each for name, each in comparison["checkpoints"].items() if each.get("final")}
    names = list(dict.fromkeys(name for each in last.values() for name in each["metrics"]))
    rows = "".join(f"<tr><td>{html.escape(name)}</td>{''.join(_cells(name, last))}</tr>\n" for name in sorted(names))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in last)
    title = "Checkpoints, with 95 % intervals"
    return (f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
            f"<h3>{title}</h3><table><tr><th></th>{head}</tr>\n{rows}</table>\n")  # fmt: skip


def _cells(name: str, checkpoints: Mapping[str, Any]) -> Iterator[str]:
    for each in checkpoints.values():
        found = each["metrics"].get(name)
        if found is None:
            yield "<td></td>"
            continue
        low, high = found.get("low"), found.get("high")
        interval = "" if low is None or high is None else f" <small>{low:.3f} to {high:.3f}</small>"
        yield f"<td>{found['value']:.3f}{interval}</td>"
