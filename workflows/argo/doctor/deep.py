"""Check of --deep: a pod of each image, with the profile's mounts, imports us, writes the store and asks MLflow."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workflows.argo.client.view import Json
from workflows.argo.doctor import Cluster, Found
from workflows.argo.manifests.containers import parameter
from workflows.argo.manifests.documents import manifests

SCRIPT = Path(__file__).with_name("pod_script.py")
POLL_S, LIMIT_S = 1.0, 240.0
HOPELESS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
            "CreateContainerError")  # fmt: skip


def pods(cluster: Cluster) -> Iterator[Found]:
    """Try one image after the other: the second is often the first one's."""
    images, folder = cluster.profile.images, f"/api/v1/namespaces/{cluster.namespace}/pods"
    for image in dict.fromkeys(images.of(needs) for needs in ("data", "train")) if cluster.deep else ():
        name = cluster.api.ask("POST", folder, pod(cluster, image))["metadata"]["name"]
        try:
            if problem := _until_over(cluster, name):
                yield Found("FAIL", f"{image}: {problem}", "fix the image's name, tag, pull_policy or pull_secrets in "
                            f"the profile, or what the message says (kubectl -n {cluster.namespace} describe pod)")
                continue
            log = b"".join(cluster.api.stream(f"{folder}/{name}/log")).decode(errors="replace")
            yield from _read(cluster, image, log)
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


def _read(cluster: Cluster, image: str, log: str) -> Iterator[Found]:
    try:
        said = json.loads(log.strip().rpartition("\n")[2])
    except ValueError:
        yield Found("FAIL", f"{image}: the pod said {log.strip()[-300:]!r}", "see whether the image has its Python")
        return
    storage, uri = cluster.profile.storage, cluster.profile.tracking.uri
    written = (f"{image}: {storage.root} is writable and flock holds",
               f"let uid {said['uid']} write it; on NFS mount version 4, with locks")
    if storage.uri:
        written = (f"{image}: {storage.uri} can be written, read, listed and deleted, and holds a second writer off",
                   "fix storage.uri or options, the Secret of defaults.secrets, or a network policy in the way")
    fixes = {"imports": (f"{image}, Python {said['python']}, has our code", "build the image with images/"),
             "store": written}
    if uri:
        fixes["mlflow"] = f"{image}: {uri} answers", "fix tracking.uri of the profile, or a network policy in the way"
    for key, (good, fix) in fixes.items():
        yield Found("FAIL", f"{image}: {key}: {said[key]}", fix) if said[key] else Found("ok", good)


def pod(cluster: Cluster, image: str) -> Json:
    """Build a pod like the plan's: same user, mounts, environment; our script in place of its command."""
    profile, storage = cluster.profile, cluster.profile.storage
    text = json.dumps(manifests(profile)["lifecycle"][0]["spec"])
    spec: dict[str, Any] = json.loads(text.replace(parameter("profile"), profile.name))
    container = next(each["container"] for each in spec["templates"] if each["name"] == "plan")
    kept = ("imagePullPolicy", "resources", "securityContext", "volumeMounts", "envFrom")
    fixed = [each for each in container["env"] if "{{" not in str(each.get("value"))]
    main = {"name": "main", "image": image, "command": ["python", "-c", SCRIPT.read_text(encoding="utf-8")],
            "args": [storage.root, profile.tracking.uri, storage.uri, json.dumps(dict(storage.options))], "env": fixed,
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
