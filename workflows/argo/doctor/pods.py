"""The check of --deep: a pod of each image, with the profile's mounts, imports us, writes the store, asks MLflow."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workflows.argo.client.transport import Json
from workflows.argo.doctor.argo import clock_found
from workflows.argo.doctor.check import Check, Cluster, Found
from workflows.argo.manifests.containers import parameter
from workflows.argo.manifests.documents import manifests

SCRIPT = Path(__file__).with_name("pod_script.py")
POLL_S, LIMIT_S = 1.0, 240.0
HOPELESS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
            "CreateContainerError")  # fmt: skip


def pods(cluster: Cluster) -> Iterator[Found]:
    """Try one image after the other: the second is often the first one's."""
    images = cluster.profile.images
    for image in dict.fromkeys(images.of(needs) for needs in ("data", "train")):
        yield from _try(cluster, image)


def _try(cluster: Cluster, image: str) -> Iterator[Found]:
    folder = f"/api/v1/namespaces/{cluster.namespace}/pods"
    before = time.time()
    name = cluster.api.ask("POST", folder, pod(cluster, image))["metadata"]["name"]
    try:
        problem = _until_over(cluster, name)
        if problem:
            yield Found("FAIL", f"{image}: {problem}", "fix the image's name, tag, pull_policy or pull_secrets in the "
                        f"profile, or what the message says (kubectl -n {cluster.namespace} describe pod)")  # fmt: skip
            return
        log = b"".join(cluster.api.stream(f"{folder}/{name}/log")).decode(errors="replace")
        yield from _read(cluster, image, log, before)
    finally:
        cluster.api.ask("DELETE", f"{folder}/{name}", {"gracePeriodSeconds": 0})


def _until_over(cluster: Cluster, name: str) -> str:
    """Wait for the pod's end; return why it will not run, "" when it ran."""
    end = time.monotonic() + LIMIT_S
    reason = "not scheduled"
    while time.monotonic() < end:
        status = (cluster.core("pods", name) or {}).get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            return ""
        for container in status.get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = f"{waiting.get('reason', 'running')}: {waiting.get('message', '')}".strip(": ")
            if waiting.get("reason") in HOPELESS:
                return reason
        for condition in status.get("conditions") or []:
            if condition.get("reason") == "Unschedulable":
                reason = f"Unschedulable: {condition.get('message')}"
        time.sleep(POLL_S)
    return f"not over in {LIMIT_S:.0f} s ({reason})"


def _read(cluster: Cluster, image: str, log: str, before: float) -> Iterator[Found]:
    try:
        said = json.loads(log.strip().rpartition("\n")[2])
    except ValueError:
        yield Found("FAIL", f"{image}: the pod said {log.strip()[-300:]!r}", "see whether the image has its Python")
        return
    storage, uri = cluster.profile.storage, cluster.profile.tracking.uri
    user = f"uid {said['uid']}"
    written = (f"{image}: {storage.root} is writable and flock holds",
               f"let {user} write it; on NFS mount version 4, with locks")
    if storage.uri:
        written = (f"{image}: {storage.uri} can be written, read, listed and deleted, and holds a second writer off",
                   "fix storage.uri or options, the Secret of defaults.secrets, or a network policy in the way")
    near = (f"{image}: {storage.fluid.root} shows the store", "see the pods of Fluid") if storage.fluid else (
        f"{image}: the cache is writable and flock holds", f"chown {said['uid']} its directory, on each node")
    fixes = {
        "imports": (f"{image}, Python {said['python']}, {user}, has our code", "build the image with images/"),
        "store": written, "near": near,
        "mlflow": (f"{image}: {uri} answers", "fix tracking.uri of the profile, or a network policy in the way"),
    }
    for key, (good, fix) in fixes.items():
        if (key == "mlflow" and not uri) or (key == "near" and not (storage.cache or storage.fluid)):
            continue
        yield Found("FAIL", f"{image}: {key}: {said[key]}", fix) if said[key] else Found("ok", good)
    yield Found("ok", f"{image}: {said['code']}")  # which a step needs that has `code` among its rewards
    yield clock_found(f"the node of {image}", float(said["time"]), before, time.time())


def pod(cluster: Cluster, image: str) -> Json:
    """Build a pod like the plan's: same user, mounts, environment; our script in place of its command."""
    profile = cluster.profile
    text = json.dumps(manifests(profile)["lifecycle"][0]["spec"])
    spec: dict[str, Any] = json.loads(text.replace(parameter("profile"), profile.name))
    container = next(each["container"] for each in spec["templates"] if each["name"] == "plan")
    kept = ("imagePullPolicy", "resources", "securityContext", "volumeMounts", "envFrom")
    storage = profile.storage
    near = [storage.cache.path if storage.cache else "", storage.fluid.root if storage.fluid else ""]
    options = json.dumps(dict(storage.options))
    fixed = [each for each in container["env"] if "{{" not in str(each.get("value"))]
    main = {"name": "main", "image": image, "command": ["python", "-c", SCRIPT.read_text(encoding="utf-8")],
            "args": [storage.root, profile.tracking.uri, storage.uri, options, *near], "env": fixed,
            **{key: container[key] for key in kept if key in container}}  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "argosy-doctor-", "namespace": cluster.namespace,
                     "labels": {"app.kubernetes.io/part-of": "argosy", "app.kubernetes.io/name": "argosy-doctor"}},
        "spec": {
            "restartPolicy": "Never", "activeDeadlineSeconds": int(LIMIT_S), "containers": [main],
            "automountServiceAccountToken": False, "serviceAccountName": profile.service_account,
            "volumes": spec["volumes"], "securityContext": spec["securityContext"],
            "imagePullSecrets": spec.get("imagePullSecrets") or [],
        },
    }  # fmt: skip


CHECKS = (Check("pods", pods, 80, limit_s=2 * LIMIT_S + 30, pods=True),)
