"""Submissions: the Workflow object that one creates, and what would fail later of it."""

from collections.abc import Mapping
from pathlib import Path

from argosy.core.config.schema import Role
from argosy.core.errors import InputError
from argosy.core.store.remote import is_uri
from workflows.argo.client.api import PIPELINE
from workflows.argo.client.view import Json, parameters_of
from workflows.lifecycle import LifecycleConfig, lifecycle

MOST_CONFIG = 100_000  # bytes; the plan's pod gets it as an environment variable, which holds 128 KiB
RETRY_OF = "argosy/retry-of"


def submission(template: str, namespace: str, parameters: Mapping[str, str]) -> Json:
    """Build a workflow of the WorkflowTemplate `template`."""
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": f"{template}-", "namespace": namespace,
                     "labels": {PIPELINE: template}},  # at once; the template sets it too
        "spec": {"workflowTemplateRef": {"name": template}, "arguments": {"parameters": given}},
    }


def same_again(workflow: Json) -> Json:
    spec, metadata = workflow["spec"], workflow["metadata"]
    given = {name: each.get("value", "") for name, each in parameters_of(spec).items()}
    again = submission(spec["workflowTemplateRef"]["name"], metadata["namespace"], given)
    again["metadata"]["annotations"] = {RETRY_OF: metadata["name"]}
    return again


def config_text(file: Path | None) -> str:
    """Read a config file for the parameter `config`. Raises InputError: it is too long to be one."""
    text = file.read_text(encoding="utf-8") if file else ""
    if len(text.encode()) > MOST_CONFIG:
        raise InputError(f"{file} has {len(text.encode()):,} bytes, allowed: {MOST_CONFIG:,}, since it becomes a "
                         "parameter of the workflow")
    return text


def check_parameters(template: Json, parameters: Mapping[str, str]) -> None:
    """Raise InputError where the cluster's template does not take a parameter, or not its value."""
    declared = parameters_of(template["spec"])
    for name, value in parameters.items():
        if name not in declared:
            raise InputError(f"the WorkflowTemplate {template['metadata']['name']} has no parameter {name!r}: it is "
                             "another version's; install this one's (argosy manifests)")
        allowed = declared[name].get("enum")
        if allowed and value not in allowed:
            raise InputError(f"{name} is {value!r}, allowed by the cluster's WorkflowTemplate: "
                             + ", ".join(each or "''" for each in allowed))


def check_files(config: LifecycleConfig) -> None:
    """Raise InputError where `config` names files of this machine: pods do not see them."""
    for node in lifecycle(config):
        for name, path in node.config.paths_with(Role.EXTERNAL):
            if not is_uri(path) and not Path(path).is_absolute():
                there = f"/store/{Path(path).name}"
                raise InputError(f"{node.name}.{name} is {path!r}, a path of this machine, which pods do not see: "
                                 f"put the file into the store and name it as pods do, such as {there}")
