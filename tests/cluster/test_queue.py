"""A stage on two nodes in a queue of Kueue: admitted as one or not at all; preempted it saves, waits and goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN
from tests.cluster.cluster import Cluster
from tests.cluster.test_nodes import (  # noqa: F401
    JOBSETS,
    RANGE,
    check,
    definitions,
    in_the_middle,
    jobsets,
    living,
    pods,
    two_groups,
)
from workflows.argo.profile.queues import Kueue
from workflows.argo.profile.settings import Nodes

pytestmark = pytest.mark.cluster
KUEUE = ("kueue.x-k8s.io", "v1beta1")
QUEUE = "argosy-tests"
ONE, TWO, PLENTY = "400m", "700m", "4Gi"  # a pod asks for 300m


def queue(cpu: str) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": PLENTY}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": QUEUE, "resources": resources}]}
    return {"namespaceSelector": {}, "resourceGroups": [group], "preemption": {"withinClusterQueue": "LowerPriority"}}


@pytest.fixture
def queued(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a queue, and the profile that names it."""
    profile = cluster.profile
    if profile.nodes is None or f"localqueues.{KUEUE[0]}" not in definitions() or profile.cpu_share != 0.3:
        pytest.skip("the cluster has no Kueue, or the profile no `nodes` or another cpu_share than 0.3")
    api, wide = cluster.custom(), {"ResourceFlavor": {"spec": {}}, "ClusterQueue": {"spec": queue(ONE)},
                                   "WorkloadPriorityClass": {"value": 1000, "description": "above all"}}
    for kind, content in wide.items():
        body = {"apiVersion": "/".join(KUEUE), "kind": kind, "metadata": {"name": QUEUE}, **content}
        api.create_cluster_custom_object(*KUEUE, plural(kind), body)
    local = {"apiVersion": "/".join(KUEUE), "kind": "LocalQueue", "metadata": {"name": QUEUE},
             "spec": {"clusterQueue": QUEUE}}
    api.create_namespaced_custom_object(*KUEUE, cluster.namespace, "localqueues", local)
    with cluster.changed("queued", nodes=Nodes(queue=Kueue(name=QUEUE))) as queued:
        yield queued
    for kind in reversed(wide):
        api.delete_cluster_custom_object(*KUEUE, plural(kind), QUEUE)
    api.delete_namespaced_custom_object(*KUEUE, cluster.namespace, "localqueues", QUEUE)


def plural(kind: str) -> str:
    return f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"


def resize(cluster: Cluster, cpu: str) -> None:
    cluster.custom().patch_cluster_custom_object(*KUEUE, "clusterqueues", QUEUE, {"spec": queue(cpu)})


def test_a_quota_of_one_pod_admits_none_of_two(queued: Cluster, store: Path, two_groups: Path) -> None:  # noqa: F811
    name = queued.submit(**RANGE, profile="queued")
    queued.until(lambda: jobsets(queued, name), "the JobSet")
    queued.running(name, "pretrain")  # the launcher is there, and waits
    queued.until(lambda: "waiting for nodes: 0 of 2" in "".join(path.read_text() for path in store.glob(
        "pretrain-*/log.txt")), "the launcher's word")  # fmt: skip
    assert pods(queued, name) == []
    assert jobsets(queued, name)[0]["spec"]["suspend"]
    resize(queued, TWO)
    check(queued, name, store, two_groups)


def test_a_preempted_stage_saves_waits_and_goes_on(queued: Cluster, store: Path, two_groups: Path) -> None:  # noqa: F811
    resize(queued, TWO)
    name = queued.submit(**RANGE, profile="queued")
    in_the_middle(queued, store)
    image = queued.profile.images.of("data")
    container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "15"],
                 "resources": {"requests": {"cpu": "300m", "memory": "64Mi"}}}  # fmt: skip
    urgent = {"apiVersion": "/".join(JOBSETS), "kind": "JobSet", "metadata": {"name": "urgent", "labels": {
        "kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/priority-class": QUEUE}}, "spec": {"replicatedJobs": [
            {"name": "one", "replicas": 1, "template": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [container]}}}}}]}}  # fmt: skip
    queued.custom().create_namespaced_custom_object(*JOBSETS, queued.namespace, "jobsets", urgent)
    queued.until(lambda: jobsets(queued, name)[0]["spec"].get("suspend"), "the preemption")
    queued.until(lambda: not [pod for pod in pods(queued, name) if pod.metadata.name in living(queued)], "its end")
    check(queued, name, store, two_groups)
    [directory] = store.glob("pretrain-*")
    assert len(read_record(directory / RUN)["restarts"]) > 0
    queued.custom().delete_namespaced_custom_object(*JOBSETS, queued.namespace, "jobsets", "urgent")
