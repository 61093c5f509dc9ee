"""The check that each stage's pod fits a node of the cluster: one that fits none waits for ever."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workflows.argo.client.transport import ApiError, Json
from workflows.argo.doctor.check import Check, Cluster, Found
from workflows.argo.pod.fit import Room, need, too_large
from workflows.argo.profile.profile import Profile
from workflows.argo.profile.quantities import amount
from workflows.compose import DEFAULT_PRESET, compose
from workflows.graph import Resources
from workflows.lifecycle import lifecycle

OURS = "workflows.argoproj.io/workflow"  # label of workflows' pods, which come and go


def nodes(cluster: Cluster) -> Iterator[Found]:
    """Check the stages of the default preset against what each node has left beside its services."""
    items = [each for each in (cluster.get("/api/v1/nodes") or {}).get("items") or [] if _takes_pods(each)]
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


def _takes_pods(node: Json) -> bool:
    ready = {each["type"]: each["status"] for each in (node.get("status") or {}).get("conditions") or []}
    return ready.get("Ready", "True") == "True" and not (node.get("spec") or {}).get("unschedulable")


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


CHECKS = (Check("nodes", nodes, 51),)
