"""All manifests of a profile, as `kubectl apply` takes them: templates, accounts, roles; and Fluid's objects for a
bucket: a Dataset, the runtime that caches it, and a Dataset that refers to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from argosy.core.store.files import make_directory, write_atomic
from workflows.argo.manifests.containers import Manifest, document
from workflows.argo.manifests.templates import evaluate_template, lifecycle_template, nightly_template, sweep_template
from workflows.argo.profile.profile import Profile, config_map, dataset
from workflows.argo.profile.settings import MOUNT, Fluid

RECONCILER = "argosy-reconciler"
EXECUTOR_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}]
RECONCILER_RULES = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get", "list"]}]
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
    api = "rbac.authorization.k8s.io"
    accounts = {profile.service_account: None, profile.executor_account: EXECUTOR_RULES, RECONCILER: RECONCILER_RULES}
    for name, rules in accounts.items():
        yield document(profile, "v1", "ServiceAccount", name, automountServiceAccountToken=False)
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
    fluid = fluid_documents(profile)
    text = yaml.safe_dump(profile.model_dump(mode="json", exclude_unset=True), sort_keys=False)
    held = document(profile, "v1", "ConfigMap", config_map(profile.name), data={f"{profile.name}.yaml": text})
    held["metadata"]["labels"][PROFILE] = profile.name
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
    name = dataset(profile)
    found = [document(profile, _API, "Dataset", name, place, spec=spec),
             document(profile, _API, _KINDS[fluid.runtime], name, place, spec=runtime)]
    if place != profile.namespace:
        refer = {"mountPoint": f"dataset://{place}/{name}", "name": MOUNT, "path": "/"}
        found.append(document(profile, _API, "Dataset", name, spec={"mounts": [refer]}))
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
