"""All manifests of a profile, as `kubectl apply` takes them: templates, accounts, roles; and Fluid's objects for a
bucket: a Dataset, the runtime that caches it, and a Dataset that refers to them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from argosy.core.store.files import make_directory, write_atomic
from workflows.argo.manifests.templates import evaluate_template, lifecycle_template, nightly_template, sweep_template
from workflows.argo.profile.profile import Profile, config_map, dataset
from workflows.argo.profile.settings import MOUNT, Fluid

RECONCILER = "argosy-reconciler"
EXECUTOR_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}]
RECONCILER_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get", "list"]}]
Manifest = dict[str, Any]
PROFILE = "argosy/profile"  # label of the ConfigMaps with profiles
_API = "data.fluid.io/v1alpha1"
_KINDS = {"alluxio": "AlluxioRuntime", "jindo": "JindoRuntime"}
_ENDPOINTS = {"alluxio": "alluxio.underfs.s3.endpoint", "jindo": "fs.s3.endpoint"}
_KEYS = {
    "alluxio": {"aws.accessKeyId": "AWS_ACCESS_KEY_ID", "aws.secretKey": "AWS_SECRET_ACCESS_KEY"},
    "jindo": {"fs.s3.accessKeyId": "AWS_ACCESS_KEY_ID", "fs.s3.accessKeySecret": "AWS_SECRET_ACCESS_KEY"}
}  # fmt: skip
_OWN_SERVER = {"alluxio.underfs.s3.disable.dns.buckets": "true", "alluxio.underfs.s3.inherit.acl": "false"}
# So that results of later steps appear in what was listed before; what does not yet, pods fetch from the bucket.
_FRESH = {"alluxio": {"alluxio.user.file.metadata.sync.interval": "30s"}, "jindo": {"metaPolicy": "ALWAYS"}}


def rights(profile: Profile) -> Iterator[Manifest]:
    """Yield service accounts, and the roles of those that have one."""
    yield _account(profile, profile.service_account)
    yield from _with_role(profile, profile.executor_account, EXECUTOR_RULES)
    yield from _with_role(profile, RECONCILER, RECONCILER_RULES)


def _with_role(profile: Profile, name: str, rules: list[dict[str, list[str]]]) -> Iterator[Manifest]:
    api = "rbac.authorization.k8s.io"
    yield _account(profile, name)
    yield {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": _metadata(profile, name), "rules": rules}
    yield {
        "apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": _metadata(profile, name),
        "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": profile.namespace}]
    }
    # The executor looks its token up by this name; Kubernetes makes no such Secret by itself.
    if name == profile.executor_account:
        metadata = _metadata(profile, f"{name}.service-account-token")
        yield {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
               "metadata": {**metadata, "annotations": {"kubernetes.io/service-account.name": name}}}


def _account(profile: Profile, name: str) -> Manifest:
    metadata = _metadata(profile, name)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def _metadata(profile: Profile, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": profile.namespace, "labels": {"app.kubernetes.io/part-of": "argosy"}}


def manifests(profile: Profile) -> dict[str, list[Manifest]]:
    """Make all documents, by file name (without .yaml)."""
    made = (lifecycle_template(profile), evaluate_template(profile), sweep_template(profile))
    templates = (*(each.to_dict() for each in made), nightly_template(profile))
    fluid = fluid_documents(profile)
    text = yaml.safe_dump(profile.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    labels = {"app.kubernetes.io/part-of": "argosy", PROFILE: profile.name}
    metadata = {"name": config_map(profile.name), "namespace": profile.namespace, "labels": labels}
    data = {f"{profile.name}.yaml": text}
    held: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return {
        "rights": list(rights(profile)),
        "profile": [held],  # for the pods of workflows that name it
        **({"fluid": fluid} if fluid else {}),
        **{each["metadata"]["name"]: [each] for each in templates},
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


def fluid_documents(profile: Profile) -> list[dict[str, Any]]:
    """Make the objects; none where the profile has no `fluid`."""
    fluid = profile.storage.fluid
    if fluid is None:
        return []
    place = fluid.namespace or profile.namespace
    spec = {"accessModes": ["ReadOnlyMany"], "mounts": [_mount(fluid, profile.storage.uri)]}
    medium = "MEM" if f"{fluid.directory}/".startswith("/dev/shm/") else "SSD"
    level = {"mediumtype": medium, "path": fluid.directory, "quota": fluid.size, "high": "0.95", "low": "0.7"}
    runtime: dict[str, Any] = {"replicas": fluid.workers, "tieredstore": {"levels": [level]}}
    if properties := {**(_FRESH["alluxio"] if fluid.runtime == "alluxio" else {}), **fluid.properties}:
        runtime["properties"] = properties
    found = [_document(profile, place, "Dataset", spec), _document(profile, place, _KINDS[fluid.runtime], runtime)]
    if place != profile.namespace:
        refer = {"mountPoint": f"dataset://{place}/{dataset(profile)}", "name": MOUNT, "path": "/"}
        found.append(_document(profile, profile.namespace, "Dataset", {"mounts": [refer]}))
    return found


def _mount(fluid: Fluid, uri: str) -> dict[str, Any]:
    options = dict(_FRESH["jindo"]) if fluid.runtime == "jindo" else {}
    if fluid.endpoint:
        options |= {_ENDPOINTS[fluid.runtime]: fluid.endpoint, **(_OWN_SERVER if fluid.runtime == "alluxio" else {})}
    mount: dict[str, Any] = {"mountPoint": uri, "name": MOUNT, "readOnly": True}
    if options or fluid.options:
        mount["options"] = {**options, **fluid.options}
    if fluid.secret:
        mount["encryptOptions"] = [{"name": name, "valueFrom": {"secretKeyRef": {"name": fluid.secret, "key": key}}}
                                   for name, key in _KEYS[fluid.runtime].items()]
    return mount


def _document(profile: Profile, namespace: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "argosy"}
    metadata = {"name": dataset(profile), "namespace": namespace, "labels": labels}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": dict(spec)}
