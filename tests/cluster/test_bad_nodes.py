"""A pod that plays a bad node is left out by the check before a stage, and the record keeps a later workflow's pods off
its node: on a cluster of one node they wait, and say why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.core.nodes.bad import bad_nodes, clear_bad, note_bad
from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN
from tests.cluster.cluster import Cluster
from tests.cluster.test_nodes import RANGE, pods, with_jobset  # noqa: F401
from tests.end_to_end.core.step.test_preflight import PLANT, WRONG
from workflows.argo.client.view import view
from workflows.argo.profile.settings import BadNodes, Placement

pytestmark = pytest.mark.cluster
BAD = "argosy-test-bad"


@pytest.fixture
def planted(cluster: Cluster, store: Path) -> Iterator[Cluster]:
    """The cluster with a profile in which the second pod of a stage on several nodes multiplies wrongly."""
    (store / "plant").mkdir()
    (store / "plant/sitecustomize.py").write_text(
        PLANT.format(rank="1", what=WRONG).replace('"RANK"', '"JOB_COMPLETION_INDEX"'))
    profile = cluster.profile
    own = profile.stages.get("pretrain", Placement())
    env = {**own.env, "PYTHONPATH": f"{profile.storage.root}/plant:/opt/argosy"}
    stages = {**profile.stages, "pretrain": own.model_copy(update={"env": env})}
    with cluster.changed("planted", bad_nodes=BadNodes(most=1), stages=stages) as planted:
        yield planted


def waits(cluster: Cluster, name: str) -> str:
    """Why the pod of pretraining has not started."""
    return "".join(unit.waits for unit in view(cluster.get(name)).units if unit.task == "pretrain")


def test_a_pod_that_plays_a_bad_node_is_left_out_and_its_record_keeps_a_later_workflow_away(
    planted: Cluster, store: Path) -> None:
    from kubernetes import client

    every = [each.metadata.name for each in client.CoreV1Api().list_node().items]
    given = RANGE["overrides"] + "\nresources.pretrain.min_nodes=1"
    ended = planted.wait(name := planted.submit(**{**RANGE, "overrides": given}, profile="planted"))
    assert ended["status"]["phase"] == "Succeeded", ended["status"].get("message")
    [directory] = store.glob("pretrain-*")
    first = read_record(directory / RUN)["restarts"][0]["why"]
    [record] = bad_nodes(store)
    assert record["node"] in every
    assert f"rank 1 on {record['node']}: wrong result of a matrix product" in first
    assert record["node"] in {pod.spec.node_name for pod in pods(planted, name)}

    name = planted.submit(**{**RANGE, "overrides": given + "\npretrain.seed=7"}, profile="planted")
    if len(every) > 1:  # it runs elsewhere
        assert planted.wait(name)["status"]["phase"] == "Succeeded"
        assert record["node"] not in {pod.spec.node_name for pod in pods(planted, name)}
        return
    planted.until(lambda: "affinity" in waits(planted, name), "the word of the pod that fits no node")
    planted.until(lambda: pods(planted, name), "the pods of the JobSet")
    assert {pod.status.phase for pod in pods(planted, name)} == {"Pending"}
    planted.delete(name)


def test_the_role_of_the_component_cordons_a_bad_node_alone_until_its_record_is_cleared(cluster: Cluster, store: Path
                                                                                        ) -> None:
    """The bad node is one that nobody runs. The role may change nodes, and nothing else."""
    from kubernetes import client

    core, rights = client.CoreV1Api(), client.RbacAuthorizationV1Api()
    core.create_node({"metadata": {"name": BAD}})
    try:
        note_bad(store / "pretrain-0123456789ab", "the check", {"cause": "node", "bad": {"0": "slow"}}, [BAD])
        with cluster.changed("cordoned", bad_nodes=BadNodes(most=1)) as cordoned:
            assert cordoned.once("cordon") == f"{BAD} is cordoned\n"
            assert [node.metadata.name for node in core.list_node().items if node.spec.unschedulable] == [BAD]
            assert cordoned.once("cordon") == ""
            clear_bad(str(store), BAD)
            assert cordoned.once("cordon") == f"{BAD} is uncordoned\n"
        assert not core.read_node(BAD).spec.unschedulable
        rights_of = [("patch", "nodes"), ("delete", "nodes"), ("list", "pods"), ("patch", "pods")]
        assert [cluster.may("argosy-cordon", *each) for each in rights_of] == [True, False, False, False]
    finally:
        core.delete_node(BAD)
        rights.delete_cluster_role_binding("argosy-cordon")
        rights.delete_cluster_role("argosy-cordon")
