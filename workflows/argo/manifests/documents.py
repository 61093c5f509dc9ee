"""All manifests of a profile, as `kubectl apply` takes them: templates, accounts, roles."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from argosy.core.store.files import make_directory, write_atomic
from workflows.argo.manifests.containers import document
from workflows.argo.manifests.events import SENSOR, SENSOR_RULES, events
from workflows.argo.manifests.serving import serving
from workflows.argo.manifests.templates import evaluate_template, lifecycle_template, nightly_template, sweep_template
from workflows.argo.pod.serving import ROLL_RULES
from workflows.argo.profile.pods import Manifest
from workflows.argo.profile.profile import Profile, config_map

RECONCILER = "argosy-reconciler"
EXECUTOR_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}]
NODES_RULES = {kind: [{"apiGroups": [group], "resources": resources, "verbs": ["create", "get", "list", "watch"]}]
               for kind, group, resources in (
                   ("JobSet", "jobset.x-k8s.io", ["jobsets"]),
                   ("TrainJob", "trainer.kubeflow.org", ["trainjobs", "trainingruntimes"]))}
RECONCILER_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get", "list"]}]
PROFILE = "argosy/profile"  # label of the ConfigMaps with profiles


def rights(profile: Profile) -> Iterator[Manifest]:
    """Yield service accounts, and the roles of those that have one."""
    api = "rbac.authorization.k8s.io"
    executor = EXECUTOR_RULES + (NODES_RULES[profile.nodes.kind] if profile.nodes else [])
    reconciler = RECONCILER_RULES + (ROLL_RULES if profile.serving else [])
    accounts = {profile.service_account: None, profile.executor_account: executor, RECONCILER: reconciler,
                **({SENSOR: SENSOR_RULES} if profile.events else {})}
    for name, rules in accounts.items():
        # Of the sensor's pod the account alone can say that it gets a token.
        yield document(profile, "v1", "ServiceAccount", name, automountServiceAccountToken=name == SENSOR)
        if rules:
            yield document(profile, f"{api}/v1", "Role", name, rules=rules)
            subjects = [{"kind": "ServiceAccount", "name": name, "namespace": profile.namespace}]
            role = {"apiGroup": api, "kind": "Role", "name": name}
            yield document(profile, f"{api}/v1", "RoleBinding", name, roleRef=role, subjects=subjects)
        # The executor looks its token up by this name; Kubernetes makes no such Secret by itself.
        if name == profile.executor_account:
            token = document(profile, "v1", "Secret", f"{name}.service-account-token")
            token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": name}
            yield {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", **token}


def manifests(profile: Profile) -> dict[str, list[Manifest]]:
    """Make all documents, by file name (without .yaml)."""
    made = (lifecycle_template(profile), evaluate_template(profile), sweep_template(profile))
    templates = (*(each.to_dict() for each in made), nightly_template(profile))
    text = yaml.safe_dump(profile.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    held = document(profile, "v1", "ConfigMap", config_map(profile.name), data={f"{profile.name}.yaml": text})
    held["metadata"]["labels"][PROFILE] = profile.name
    forms = {each["metadata"]["name"]: each["spec"]["arguments"]["parameters"] for each in templates[:3]}
    more = {"events": events(profile, forms)} if profile.events else {}
    more |= {"serving": list(serving(profile, profile.serving))} if profile.serving else {}
    return {
        "rights": list(rights(profile)),
        "profile": [held],  # for the pods of workflows that name it
        **{each["metadata"]["name"]: [each] for each in templates}, **more,
    }


def write_manifests(profile: Profile, folder: Path) -> list[Path]:
    """Write a file for each, and the kustomization that lists them; returns their paths."""
    make_directory(folder)
    files = {f"{name}.yaml": documents for name, documents in manifests(profile).items()}
    files["kustomization.yaml"] = [{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                                    "resources": list(files)}]
    for name, documents in files.items():
        write_atomic(folder / name, yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120))
    return [folder / name for name in files]
