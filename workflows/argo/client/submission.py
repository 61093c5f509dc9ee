"""Submissions: the Workflow object that one creates, what would fail later of it, and notes on its profile."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from argosy.core.config.schema import Role
from argosy.core.errors import InputError
from argosy.core.store.remote import is_uri
from workflows.argo.client.api import PIPELINE
from workflows.argo.client.view import Json, parameters_of
from workflows.argo.handoff import PERSON
from workflows.argo.profile.profile import SHIPPED, TEMPLATE_STORE, Profile, check_store
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.local.shipping import person

MOST_CONFIG = 100_000  # bytes; the plan's pod gets it as an environment variable, which holds 128 KiB


def submission(template: str, namespace: str, parameters: Mapping[str, str]) -> Json:
    """Build a workflow of the WorkflowTemplate `template`."""
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    who = re.sub(r"[^A-Za-z0-9._-]", "-", person()).strip("-._")[:63].rstrip("-._")
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": f"{template}-", "namespace": namespace,
                     "labels": {PIPELINE: template, **({PERSON: who} if who else {})}},  # at once; so does the template
        "spec": {"workflowTemplateRef": {"name": template}, "arguments": {"parameters": given}},
    }


def same_again(workflow: Json) -> Json:
    spec, metadata = workflow["spec"], workflow["metadata"]
    given = {name: each.get("value", "") for name, each in parameters_of(spec).items()}
    again = submission(spec["workflowTemplateRef"]["name"], metadata["namespace"], given)
    again["metadata"]["annotations"] = {"argosy/retry-of": metadata["name"]}
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


def profile_notes(template: Json, profile: Profile, held: str | None, install: str) -> Iterator[str]:
    """Yield notes on a submission of `template` with `profile`.

    `held`: YAML of the profile of that name in the namespace; "" where there is none, None where it is not known.
    `install`: commands that install the profile. Raises InputError: the plan's pod would refuse it, or not find it."""
    check_store(profile, store_of(template) or profile.storage.description)
    if held == "" and not (SHIPPED / f"{profile.name}.yaml").is_file():  # which pods have in their image
        raise InputError(f"profile {profile.name!r} is not in the namespace, and pods would not find it: {install}")
    if held:
        ours, theirs = profile.model_dump(mode="json", exclude_unset=True), yaml.safe_load(held) or {}
        if names := sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)):
            yield (f"the profile {profile.name} that the namespace holds differs in {', '.join(names)}, and pods read "
                   f"that one; to install this one: {install}")
    own = default_of(template, "profile")
    if own and own != profile.name:
        yield (f"the WorkflowTemplate {template['metadata']['name']} was made from the profile {own}: images, "
               f"resources, devices and places are those of {profile.name}; accounts, volumes, attempts and deadlines "
               f"stay those of {own}; to change that: {install}")


def default_of(template: Json, name: str) -> str:
    return str(parameters_of(template["spec"]).get(name, {}).get("value", ""))


def store_of(template: Json) -> str:
    containers = [each.get("container") or {} for each in template["spec"].get("templates") or []]
    told = [each for container in containers for each in container.get("env") or [] if each["name"] == TEMPLATE_STORE]
    return str(told[0].get("value", "")) if told else ""
