"""What the profile names must be there: PriorityClasses, semaphores, Secrets."""

from __future__ import annotations

from collections.abc import Iterator

from workflows.argo.client_http import ApiError
from workflows.argo.doctor.check import Check, Cluster, Found
from workflows.argo.profile_placement import Placement

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def priorities(cluster: Cluster) -> Iterator[Found]:
    """Each PriorityClass that the form offers."""
    names = cluster.profile.priorities
    for name in names:
        if cluster.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}") is None:
            mend = f"kubectl create priorityclass {name} --value=1000, or take it out of priorities in the profile"
            yield Found("FAIL", f"there is no PriorityClass {name}", mend)
            return
    yield Found("ok", f"PriorityClasses {', '.join(names)}" if names else "the profile names none")


def slots(cluster: Cluster) -> Iterator[Found]:
    """Each semaphore: a key of a ConfigMap that holds how many may work at a time."""
    wanted = sorted({each.slot for each in _placements(cluster) if each.slot})
    for slot in wanted:
        name, _, key = slot.partition("/")
        value = ((cluster.core("configmaps", name) or {}).get("data") or {}).get(key, "")
        if not value.isdigit() or int(value) < 1:
            yield Found("FAIL", f"semaphore {slot} is {value or 'not there'}: workflows would wait for it for ever",
                        f"kubectl -n {cluster.namespace} create configmap {name} --from-literal={key}=1")  # fmt: skip
            return
    yield Found("ok", f"semaphores {', '.join(wanted)}" if wanted else "the profile names none")


def secrets(cluster: Cluster) -> Iterator[Found]:
    """Secrets that pods read or pull with."""
    wanted = {name for each in _placements(cluster) for name in each.secrets}
    wanted |= {*cluster.profile.images.pull_secrets, cluster.profile.nightly.webhook_secret.partition("/")[0]} - {""}
    for name in sorted(wanted):
        if not _is_there(cluster, name):
            yield Found("FAIL", f"there is no Secret {name}: pods that need it would not start",
                        f"kubectl -n {cluster.namespace} create secret generic {name} ...")  # fmt: skip
            return
    yield Found("ok", f"Secrets {', '.join(sorted(wanted))}" if wanted else "the profile names none")


def _is_there(cluster: Cluster, secret: str) -> bool:
    """By its metadata alone: nobody needs what is in it."""
    try:
        cluster.api.ask("GET", f"/api/v1/namespaces/{cluster.namespace}/secrets/{secret}", accept=METADATA)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def _placements(cluster: Cluster) -> Iterator[Placement]:
    yield from (cluster.profile.defaults, *cluster.profile.stages.values())


CHECKS = (Check("priorities", priorities, 60), Check("slots", slots, 61), Check("secrets", secrets, 62))
