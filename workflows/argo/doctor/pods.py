"""Checks that each stage's pod fits a node of the cluster, else it waits for ever; and of --deep that a pod of each
image, with the profile's mounts, imports us, writes the store and asks MLflow."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workflows.argo.client.api import ApiError
from workflows.argo.client.view import Json
from workflows.argo.doctor import Check, Cluster, Found
from workflows.argo.doctor.argo import clock_found
from workflows.argo.manifests.containers import parameter
from workflows.argo.manifests.documents import manifests
from workflows.argo.pod.outputs import Room, need, too_large
from workflows.argo.profile.profile import Profile
from workflows.argo.profile.settings import amount
from workflows.compose import DEFAULT_PRESET, compose
from workflows.graph import Resources
from workflows.lifecycle import lifecycle

SCRIPT = Path(__file__).with_name("pod_script.py")
OURS = "workflows.argoproj.io/workflow"  # label of workflows' pods, which come and go
POLL_S, LIMIT_S = 1.0, 240.0
HOPELESS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
            "CreateContainerError")  # fmt: skip


def pods(cluster: Cluster) -> Iterator[Found]:
    """Try one image after the other: the second is often the first one's."""
    images, folder = cluster.profile.images, f"/api/v1/namespaces/{cluster.namespace}/pods"
    for image in dict.fromkeys(images.of(needs) for needs in ("data", "train")):
        before = time.time()
        name = cluster.api.ask("POST", folder, pod(cluster, image))["metadata"]["name"]
        try:
            if problem := _until_over(cluster, name):
                yield Found("FAIL", f"{image}: {problem}", "fix the image's name, tag, pull_policy or pull_secrets in "
                            f"the profile, or what the message says (kubectl -n {cluster.namespace} describe pod)")
                continue
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


def nodes(cluster: Cluster) -> Iterator[Found]:
    """Check the stages of the default preset against what each node has left beside its services."""
    items = []
    for node in (cluster.get("/api/v1/nodes") or {}).get("items") or []:
        ready = {each["type"]: each["status"] for each in (node.get("status") or {}).get("conditions") or []}
        if ready.get("Ready", "True") == "True" and not (node.get("spec") or {}).get("unschedulable"):
            items.append(node)
    if not items:
        yield Found("warn", "no node is ready for pods", "kubectl get nodes")
        return
    services = _services(cluster)
    free = [(each, _room(each, services)) for each in items]
    stages = {node.name: node.resources for node in lifecycle(compose(DEFAULT_PRESET))}
    for stage, resources in stages.items():
        if why := _fits_none(cluster.profile, stage, resources, free):
            yield Found("FAIL", f"{why}: its pods would wait for ever", "lower stages.STAGE.cpu and .memory or "
                        "cpu_share in the profile, or resources.STAGE of the config, or add a larger node")  # fmt: skip
            return
    yield Found("ok", f"the default preset's stages fit one of {len(items)} node{'s' * (len(items) > 1)}")


def _fits_none(profile: Profile, stage: str, resources: Resources, free: Sequence[tuple[Json, Room]]) -> str:
    """Return why no node takes a pod of `stage`, by the largest one; "" where one does."""
    wanted = dict(profile.of_stage(stage).node_selector)
    fitting = [room for node, room in free if wanted.items() <= (node["metadata"].get("labels") or {}).items()]
    if not fitting:
        return f"no node has the labels {wanted} of stage {stage}"
    asked = need(profile, stage, resources)
    reasons = [too_large(stage, asked, room, "the largest node") for room in sorted(fitting, key=lambda r: r.cpu)]
    return reasons[-1] if all(reasons) else ""


def _services(cluster: Cluster) -> list[Json]:
    """List the pods that stay; none where one may not look at all namespaces."""
    try:
        found = (cluster.get("/api/v1/pods") or {}).get("items") or []
    except ApiError as error:
        if error.status not in (401, 403):
            raise
        return []
    over = ("Succeeded", "Failed")
    return [pod for pod in found if OURS not in (pod["metadata"].get("labels") or {})
            and (pod.get("status") or {}).get("phase") not in over]  # fmt: skip


def _room(node: Json, services: Sequence[Json]) -> Room:
    total: Mapping[str, Any] = node["status"].get("allocatable") or {}
    taken = [
        (container.get("resources") or {}).get("requests") or {}
        for pod in services if pod["spec"].get("nodeName") == node["metadata"]["name"]
        for container in pod["spec"]["containers"]
    ]  # fmt: skip
    left = {name: amount(total.get(name, "0")) - sum(amount(each.get(name, "0")) for each in taken) for name in total}
    return Room(left.pop("cpu", 0.0), left.pop("memory", 0.0), left)


CHECKS = (Check("nodes", nodes, 51), Check("pods", pods, 80, pods=True))
