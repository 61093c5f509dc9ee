"""Fluid's objects for a bucket: a Dataset, the runtime that caches it, and a Dataset that refers to them."""

from collections.abc import Mapping
from typing import Any

from workflows.argo.profile.near import MOUNT, Fluid
from workflows.argo.profile.profile import Profile

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


def dataset(profile: Profile) -> str:
    """Name the Dataset, its runtime, and the claim that Fluid makes."""
    return f"argosy-{profile.name.replace('.', '-')}"


def fluid_documents(profile: Profile) -> list[dict[str, Any]]:
    """Make the objects; none where the profile has no `fluid`."""
    fluid = profile.storage.fluid
    if fluid is None:
        return []
    place = fluid.namespace or profile.namespace
    spec = {"accessModes": ["ReadOnlyMany"], "mounts": [_mount(fluid, profile.storage.uri)]}
    found = [_document(profile, place, "Dataset", spec),
             _document(profile, place, _KINDS[fluid.runtime], _runtime(fluid))]
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


def _runtime(fluid: Fluid) -> dict[str, Any]:
    medium = "MEM" if f"{fluid.directory}/".startswith("/dev/shm/") else "SSD"
    level = {"mediumtype": medium, "path": fluid.directory, "quota": fluid.size, "high": "0.95", "low": "0.7"}
    spec: dict[str, Any] = {"replicas": fluid.workers, "tieredstore": {"levels": [level]}}
    properties = {**(_FRESH["alluxio"] if fluid.runtime == "alluxio" else {}), **fluid.properties}
    return {**spec, "properties": properties} if properties else spec


def _document(profile: Profile, namespace: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "argosy"}
    metadata = {"name": dataset(profile), "namespace": namespace, "labels": labels}
    return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": dict(spec)}
