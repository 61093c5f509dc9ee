"""A stage on two nodes in a queue of Kueue or Volcano: admitted as one or not at all; preempted it saves, waits and
goes on. Evaluations wait in the same queue."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN
from tests.cluster.cluster import Cluster
from tests.cluster.test_nodes import (  # noqa: F401
    JOBSETS,
    RANGE,
    TRAINER,
    check,
    definitions,
    delete,
    in_the_middle,
    jobsets,
    living,
    pods,
    two_groups,
)
from workflows.argo.profile.queues import Kueue, Topology, Volcano
from workflows.argo.profile.settings import Nodes, Placement

pytestmark = pytest.mark.cluster
KUEUE, VOLCANO = ("kueue.x-k8s.io", "v1beta1"), ("scheduling.volcano.sh", "v1beta1")
QUEUE, HOST = "argosy-tests", "kubernetes.io/hostname"
ONE, TWO, PLENTY = "400m", "700m", "4Gi"  # a pod asks for 300m
RESIZED = {KUEUE: "clusterqueues", VOLCANO: "queues"}


def queue(api: tuple[str, str], cpu: str) -> dict[str, Any]:
    if api == VOLCANO:
        return {"capability": {"cpu": cpu}}
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": PLENTY}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": QUEUE, "resources": resources}]}
    return {"namespaceSelector": {}, "resourceGroups": [group], "preemption": {"withinClusterQueue": "LowerPriority"}}


@pytest.fixture
def api() -> tuple[str, str]:
    return KUEUE


@pytest.fixture
def kind() -> Literal["JobSet", "TrainJob"]:
    return "JobSet"


@pytest.fixture
def queued(cluster: Cluster, api: tuple[str, str], kind: Literal["JobSet", "TrainJob"]) -> Iterator[Cluster]:
    """The cluster with a queue that has room for one pod, and the profile that names it."""
    needed = {f"{RESIZED[api]}.{api[0]}", f"{kind.lower()}s.{(TRAINER if kind == 'TrainJob' else JOBSETS)[0]}"}
    if not needed <= set(definitions()) or cluster.profile.cpu_share != 0.3:
        pytest.skip(f"the cluster has not all of {needed}, or the profile another cpu_share than 0.3")
    custom = cluster.custom()
    wide: dict[str, dict[str, Any]] = {
        "topologies": {"kind": "Topology", "spec": {"levels": [{"nodeLabel": HOST}]}},
        "resourceflavors": {"kind": "ResourceFlavor", "spec": {"topologyName": QUEUE,
                                                               "nodeLabels": {"kubernetes.io/os": "linux"}}},
        "clusterqueues": {"kind": "ClusterQueue", "spec": queue(KUEUE, ONE)},
        "workloadpriorityclasses": {"kind": "WorkloadPriorityClass", "value": 1000, "description": "above all"},
    } if api == KUEUE else {"queues": {"kind": "Queue", "spec": queue(VOLCANO, ONE)}}  # fmt: skip
    common = {"apiVersion": "/".join(api), "metadata": {"name": QUEUE}}
    for plural, content in wide.items():
        custom.create_cluster_custom_object(*api, plural, {**common, **content})
    if api == KUEUE:
        local = {**common, "kind": "LocalQueue", "spec": {"clusterQueue": QUEUE}}
        custom.create_namespaced_custom_object(*api, cluster.namespace, "localqueues", local)
    named = Kueue(name=QUEUE, topology=Topology(required=HOST)) if api == KUEUE else Volcano(kind="Volcano", name=QUEUE)
    with cluster.changed("queued", nodes=Nodes(kind=kind, queue=named), stages={"evaluate": Placement(queued=True)}
                         ) as changed:
        yield changed
    for plural in reversed(wide):
        custom.delete_cluster_custom_object(*api, plural, QUEUE)
    if api == KUEUE:
        custom.delete_namespaced_custom_object(*api, cluster.namespace, "localqueues", QUEUE)
    cluster.until(lambda: QUEUE not in [each["metadata"]["name"] for plural in wide for each in
                                        custom.list_cluster_custom_object(*api, plural)["items"]], "the queue's end")


def resize(cluster: Cluster, api: tuple[str, str], cpu: str) -> None:
    cluster.custom().patch_cluster_custom_object(*api, RESIZED[api], QUEUE, {"spec": queue(api, cpu)})


def groups(cluster: Cluster, api: tuple[str, str], owner: str) -> list[dict[str, Any]]:
    """The Workloads or PodGroups of owners of a kind."""
    plural = "workloads" if api == KUEUE else "podgroups"
    found = cluster.custom().list_namespaced_custom_object(*api, cluster.namespace, plural)["items"]
    return [each for each in found if each["metadata"]["ownerReferences"][0]["kind"] == owner]


@pytest.mark.parametrize(("api", "kind"), [(KUEUE, "JobSet"), (KUEUE, "TrainJob"), (VOLCANO, "JobSet")])
def test_room_for_one_pod_admits_none_of_two(
    api: tuple[str, str], kind: str, queued: Cluster, store: Path, two_groups: Path) -> None:  # noqa: F811
    owner = kind if api == KUEUE else "Job"
    name = queued.submit(**RANGE, profile="queued")
    words = "insufficient quota" if api == KUEUE else "unschedulable"
    queued.until(lambda: words in str(groups(queued, api, owner)), "the refusal of the gang")
    queued.running(name, "pretrain")  # the launcher is there, and waits
    queued.until(lambda: "waiting for nodes: 0 of 2" in "".join(path.read_text() for path in store.glob(
        "pretrain-*/log.txt")), "the launcher's word")  # fmt: skip
    [gang] = groups(queued, api, owner)
    if api == KUEUE:
        assert (pods(queued, name), gang.get("status", {}).get("admission")) == ([], None)
        assert gang["spec"]["podSets"][0]["topologyRequest"]["required"] == HOST
    else:
        assert [pod.spec.node_name for pod in pods(queued, name)] == [None, None]
        assert (gang["spec"]["minMember"], gang["spec"]["queue"]) == (2, QUEUE)
    resize(queued, api, TWO)
    check(queued, name, store, two_groups)
    if api == KUEUE:
        [admitted] = groups(queued, api, owner)[0]["status"]["admission"]["podSetAssignments"]
        assert (admitted["count"], admitted["topologyAssignment"]["levels"]) == (2, [HOST])
    delete(queued, name)
    queued.until(lambda: not groups(queued, api, owner), "the end of its gang")


@pytest.mark.parametrize("api", [KUEUE, VOLCANO])
def test_evaluations_wait_in_the_same_queue(api: tuple[str, str], queued: Cluster, store: Path) -> None:
    stages = "stages=[clean, tokenizer, tokenize, pretrain, evaluate]"
    resize(queued, api, "100m")
    name = queued.submit(to="evaluate", overrides=stages, profile="queued")
    queued.until(lambda: groups(queued, api, "Pod" if api == KUEUE else "Workflow"), "an evaluation that waits")
    assert not list(store.glob("evaluate-*/log.txt"))
    resize(queued, api, TWO)
    assert queued.wait(name)["status"]["phase"] == "Succeeded"


def test_a_preempted_stage_saves_waits_and_goes_on(queued: Cluster, store: Path, two_groups: Path) -> None:  # noqa: F811
    resize(queued, KUEUE, TWO)
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
