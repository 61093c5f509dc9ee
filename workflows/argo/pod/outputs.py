"""What a plan pod gives to Argo: output parameters, a file each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflows.argo.handoff import Batch
from workflows.argo.pod_spec import memory_mb, pod_patch
from workflows.argo.profile import Profile
from workflows.argo.tasks import Task
from workflows.node import Resources, definition
from workflows.plan import Plan

MOST_SUMMARY = 8000  # characters; a parameter is part of the Workflow object


def write_outputs(
    planned: Plan,
    tasks: list[Task],
    batches: Mapping[str, Mapping[str, Batch]],
    profile: Profile,
    arguments: argparse.Namespace,
    summary: str,
) -> None:
    """For each task its batches, its pods' patch and memory; `summary` is what the UI shows of the plan."""
    resources = {node.name: node.resources for node in planned.nodes}
    needs = {node.name: definition(node.step).needs for node in planned.nodes}
    patches, memory = {}, {}
    for task in tasks:
        given = resources.get(task.stage, Resources())
        patch: dict[str, Any] = pod_patch(
            profile, task.stage, needs.get(task.stage, task.needs), given, arguments.image_tag
        )
        if arguments.priority:
            patch["priorityClassName"] = arguments.priority
        patches[task.name] = json.dumps(patch)
        memory[task.name] = str(memory_mb(profile, task.stage, given))
        write_output(arguments.outputs, task.parameter, json.dumps(list(batches[task.name])))
    write_output(arguments.outputs, "patches", json.dumps(patches))
    write_output(arguments.outputs, "memory", json.dumps(memory))
    write_output(arguments.outputs, "summary", summary[:MOST_SUMMARY])


def write_output(folder: Path, name: str, text: str) -> None:
    """One output parameter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
