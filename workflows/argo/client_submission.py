"""The Workflow object that a submission creates: a reference to the template, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from argosy.config import Role
from argosy.errors import InputError
from workflows.argo.client_http import Json
from workflows.lifecycle import LifecycleConfig, lifecycle

MOST_CONFIG = 100_000  # bytes; the plan's pod gets it as an environment variable, which holds 128 KiB
RETRY_OF = "argosy/retry-of"
FROM_PLAN = "displayName=plan"  # the nodes from which a retry always goes on: the plan skips what is done


def submission(template: str, namespace: str, parameters: Mapping[str, str]) -> Json:
    """A workflow of the WorkflowTemplate `template`."""
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "generateName": f"{template}-",
            "namespace": namespace,
            "labels": {"argosy/pipeline": template},  # at once; the template sets it too
        },
        "spec": {"workflowTemplateRef": {"name": template}, "arguments": {"parameters": given}},
    }


def same_again(workflow: Json) -> Json:
    """A workflow with the parameters of `workflow`."""
    spec, metadata = workflow["spec"], workflow["metadata"]
    given = {each["name"]: each.get("value", "") for each in (spec.get("arguments") or {}).get("parameters") or []}
    again = submission(spec["workflowTemplateRef"]["name"], metadata["namespace"], given)
    again["metadata"]["annotations"] = {RETRY_OF: metadata["name"]}
    return again


def config_text(file: Path | None) -> str:
    """The text of a config file, as the parameter `config`.

    Raises:
        InputError: it is too long to be one.
    """
    text = file.read_text(encoding="utf-8") if file else ""
    if len(text.encode()) > MOST_CONFIG:
        raise InputError(f"{file} has {len(text.encode()):,} bytes, allowed: {MOST_CONFIG:,}, since it becomes a "
                         "parameter of the workflow")
    return text


def check_parameters(template: Json, parameters: Mapping[str, str]) -> None:
    """Raises InputError where the cluster's template does not take a parameter, or not its value."""
    declared = {each["name"]: each for each in (template["spec"].get("arguments") or {}).get("parameters") or []}
    for name, value in parameters.items():
        if name not in declared:
            raise InputError(f"the WorkflowTemplate {template['metadata']['name']} has no parameter {name!r}: it is "
                             "another version's; install this one's (argosy manifests)")
        allowed = declared[name].get("enum")
        if allowed and value not in allowed:
            raise InputError(f"{name} is {value!r}, allowed by the cluster's WorkflowTemplate: "
                             + ", ".join(each or "''" for each in allowed))


def check_files(config: LifecycleConfig) -> None:
    """Raises InputError where `config` names files of this machine: pods do not see them."""
    for node in lifecycle(config):
        for name in node.config.fields_with(Role.EXTERNAL):
            value = getattr(node.config, name)
            for path in (value,) if isinstance(value, str) else tuple(value or ()):
                if path and not Path(path).is_absolute():
                    there = f"/store/{Path(path).name}"
                    raise InputError(f"{node.name}.{name} is {path!r}, a path of this machine, which pods do not see: "
                                     f"put the file into the store and name it as pods do, such as {there}")
