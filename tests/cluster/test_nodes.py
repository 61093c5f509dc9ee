"""A stage on two nodes, as a JobSet: the weights of two groups of processes on the laptop, whatever happens to its
pods, and nothing left behind."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.step_files import ERROR, RUN, rank_log
from tests.cluster.cluster import Cluster, definitions, pod_nodes
from tests.cluster.test_faults import processes
from tests.end_to_end.crash import run
from tests.store_comparison import differences
from workflows.argo.profile.profile import Retry
from workflows.argo.profile.settings import Nodes, Placement

pytestmark = pytest.mark.cluster
TWO = ("resources.pretrain.nodes=2", "pretrain.processes=2", "pretrain.tokens=40_000", "pretrain.restarts=5")
RANGE = {"to": "pretrain", "overrides": "\n".join(TWO)}
JOBSETS, TRAINER = ("jobset.x-k8s.io", "v1alpha2"), ("trainer.kubeflow.org", "v1alpha1")


@pytest.fixture(scope="module")
def two_groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which two groups of processes pretrained on this machine."""
    path = tmp_path_factory.mktemp("laptop") / "store"
    run(path, "--to", "pretrain", *TWO, popen=subprocess.Popen)
    return path


@pytest.fixture(autouse=True)
def with_jobset(cluster: Cluster) -> Iterator[None]:
    """Skips where the cluster or the profile has no JobSet; nothing is left after a test."""
    if cluster.profile.nodes is None or f"jobsets.{JOBSETS[0]}" not in definitions():
        pytest.skip("the cluster has no JobSet, or the profile no `nodes`")
    yield
    cluster.until(lambda: not living(cluster), "the end of all pods of JobSets")


def pods(cluster: Cluster, workflow: str = "") -> list[Any]:
    return cluster.labelled(f"argosy/workflow={workflow}" if workflow else "argosy/workflow")


def living(cluster: Cluster) -> list[str]:
    return [pod.metadata.name for pod in pods(cluster) if pod.status.phase in ("Pending", "Running")]


def jobsets(cluster: Cluster, workflow: str, api: tuple[str, str] = JOBSETS, kind: str = "jobsets"
            ) -> list[dict[str, Any]]:
    found = cluster.custom().list_namespaced_custom_object(*api, cluster.namespace, kind)["items"]
    return [each for each in found if each["metadata"].get("labels", {}).get("argosy/workflow") == workflow]


def delete(cluster: Cluster, name: str) -> None:
    """Delete the workflow, and wait until no object of its stages is left."""
    cluster.delete(name)
    cluster.until(lambda: not [*pods(cluster, name), *jobsets(cluster, name)], "the end of its JobSets and their pods")


def in_the_middle(cluster: Cluster, store: Path) -> None:
    cluster.until(lambda: list(store.glob("pretrain-*/state/step-*/complete")), "a state of pretraining")


def rank(cluster: Cluster, number: int) -> int:
    """The process of a rank in a pod of the newest JobSet, on this machine, which may have others too."""
    [pod, *_] = sorted(pods(cluster), key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    jobset = pod.metadata.labels["jobset.sigs.k8s.io/jobset-name"].encode()
    variables = {pid: Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in processes("steps.pretrain")}
    found = [pid for pid, given in variables.items()
             if b"RANK=%d" % number in given and any(each.startswith(b"HOSTNAME=" + jobset) for each in given)]
    if not found:
        pytest.skip("the pods' processes are not this machine's, or it was too fast")
    return found[-1]


def check(cluster: Cluster, name: str, store: Path, laptop: Path, attempts: int | None = 1) -> dict[str, Any]:
    ended = cluster.wait(name)
    assert ended["status"]["phase"] == "Succeeded", ended["status"].get("message")
    assert differences(store, laptop) == []
    [directory] = store.glob("pretrain-*")
    record = read_record(directory / RUN)
    assert attempts in (None, record["attempts"])
    return record


def test_two_pods_give_the_weights_of_two_groups_of_processes(cluster: Cluster, store: Path, two_groups: Path) -> None:
    name = cluster.submit(**RANGE)
    record = check(cluster, name, store, two_groups)
    assert record.get("restarts", []) == []
    [jobset] = jobsets(cluster, name)
    assert jobset["metadata"]["ownerReferences"][0]["name"] == name
    assert jobset["status"]["terminalState"] == "Completed"
    assert len({pod.status.pod_ip for pod in pods(cluster, name)}) == 2
    [directory] = store.glob("pretrain-*")
    assert (directory / rank_log(1)).is_file()


def test_an_item_of_a_tree_on_two_nodes(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    tree = ("posttraining=[{name: Chat_1, method: sft}, {name: next, from: Chat_1, method: simpo}]",
            "resources.Chat_1.nodes=2", "resources.next.nodes=2")
    run(tmp_path / "store", "--to", "next", *tree, popen=subprocess.Popen)
    name = cluster.submit(to="next", overrides="\n".join(tree))
    check(cluster, name, store, tmp_path / "store")
    assert {each["status"]["terminalState"] for each in jobsets(cluster, name)} == {"Completed"}
    delete(cluster, name)


def test_a_deleted_pod_and_a_killed_rank(cluster: Cluster, store: Path, two_groups: Path) -> None:
    name = cluster.submit(**RANGE)
    in_the_middle(cluster, store)
    os.kill(rank(cluster, 1), signal.SIGKILL)
    [directory] = store.glob("pretrain-*")
    cluster.until(lambda: len(read_record(directory / RUN).get("restarts", [])) == 1, "the restart")
    cluster.delete_pod(living(cluster)[-1])
    record = check(cluster, name, store, two_groups)
    assert len(record["restarts"]) >= 2


def test_a_rank_that_freezes(cluster: Cluster, store: Path, two_groups: Path) -> None:
    name = cluster.submit(**RANGE)
    in_the_middle(cluster, store)
    os.kill(rank(cluster, 1), signal.SIGSTOP)
    record = check(cluster, name, store, two_groups)
    assert [(each["cause"], each["rank"]) for each in record["restarts"]] == [("hang", 1)]
    delete(cluster, name)


def test_controllers_that_are_started_again(cluster: Cluster, store: Path, two_groups: Path) -> None:
    name = cluster.submit(**RANGE)
    in_the_middle(cluster, store)
    cluster.delete_pods_of("app=workflow-controller", "app.kubernetes.io/name=jobset")
    record = check(cluster, name, store, two_groups)
    assert (record.get("restarts", []), len(pods(cluster, name)), len(jobsets(cluster, name))) == ([], 2, 1)
    delete(cluster, name)


def test_the_next_jobset_of_pods_that_lacked_memory_has_more(cluster: Cluster, store: Path, two_groups: Path) -> None:
    name = cluster.submit(**{**RANGE, "overrides": RANGE["overrides"] + "\nresources.pretrain.memory_gb=1"})
    check(cluster, name, store, two_groups, attempts=None)  # the kernel kills a rank, or its pod
    made = [each["value"] for node in sorted(pod_nodes(cluster.get(name)), key=lambda node: str(node["startedAt"]))
            for each in node.get("outputs", {}).get("parameters", ()) if each["name"] == "jobset"]
    given = [int(found[1]) for each in made if (found := re.search(r'"limits": \{[^}]*"memory": "(\d+)Mi"', each))]
    assert given == [int(given[0] * 1.5**number) for number in range(len(given))]
    assert len(given) > 1


def test_a_launcher_that_is_deleted(cluster: Cluster, store: Path, two_groups: Path) -> None:
    name = cluster.submit(**RANGE)
    in_the_middle(cluster, store)
    before = living(cluster)
    cluster.delete_pod(cluster.running(name, "pretrain"))
    check(cluster, name, store, two_groups, attempts=2)
    assert {pod.metadata.name for pod in pods(cluster, name)} == {*before}  # they waited for the next launcher


def test_a_pod_in_the_place_of_an_evicted_one_waits_for_its_jobset(cluster: Cluster, store: Path, two_groups: Path
                                                                     ) -> None:
    name = cluster.submit(**RANGE)
    in_the_middle(cluster, store)
    cluster.delete_pod(cluster.running(name, "pretrain-nodes"))
    record = check(cluster, name, store, two_groups)
    waited = [node["phase"] for node in pod_nodes(cluster.get(name)) if ".wait(" in node["name"]]
    assert (record.get("restarts", []), len(jobsets(cluster, name)), sorted(waited)) == ([], 1, ["Error", "Succeeded"])


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_a_launcher_does_not_wait_where_all_jobsets_failed(cluster: Cluster, store: Path, kind: str) -> None:
    if f"{kind.lower()}s" not in {name.partition(".")[0] for name in definitions()}:
        pytest.skip(f"the cluster has no {kind}")
    broken = {"nodes": Nodes.model_validate({"kind": kind}), "retry": Retry(failures=0, interruptions=1),
              "stages": {"pretrain": Placement(env={"PYTHONHOME": "/nowhere"})}}
    with cluster.changed("broken", **broken) as changed:
        assert changed.wait(changed.submit(**RANGE, profile="broken"))["status"]["phase"] == "Failed"
    [directory] = store.glob("pretrain-*")
    assert "no more come: 2 JobSets failed, 0 of them though" in read_record(directory / ERROR)["message"]


def test_a_train_job_gives_the_same_weights_and_leaves_nothing(cluster: Cluster, store: Path, two_groups: Path) -> None:
    if f"trainjobs.{TRAINER[0]}" not in definitions():
        pytest.skip("the cluster has no Kubeflow Trainer")
    with cluster.changed("trainer", nodes=Nodes(kind="TrainJob")) as changed:
        name = changed.submit(**RANGE, profile="trainer")
        check(changed, name, store, two_groups)
    [job], [jobset] = jobsets(cluster, name, TRAINER, "trainjobs"), jobsets(cluster, name)
    assert [each["type"] for each in job["status"]["conditions"]] == ["Complete"]
    assert jobset["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    delete(cluster, name)
    cluster.until(lambda: not any(jobsets(cluster, name, TRAINER, kind) for kind in ("trainjobs", "trainingruntimes")),
                  "the end of its TrainJob")


@pytest.mark.parametrize("how", ["stopped", "terminated", "deleted"])
def test_nothing_is_left_and_mlflow_hears_of_the_end(cluster: Cluster, store: Path, how: str) -> None:
    from mlflow.tracking import MlflowClient

    name = cluster.submit(**RANGE)
    in_the_middle(cluster, store)
    if how == "deleted":
        delete(cluster, name)
    else:
        cluster.patch(name, {"spec": {"shutdown": {"stopped": "Stop"}.get(how, "Terminate")}})
        assert cluster.wait(name)["status"]["phase"] == "Failed"
    cluster.until(lambda: not living(cluster), "the end of its pods")
    cluster.reconcile()
    assert read_record(store / ".argo" / name / "finished.json") == {"status": "KILLED"}
    client = MlflowClient(tracking_uri=f"sqlite:///{store}/mlflow.db")
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert {str(run.info.status) for run in runs} == {"FINISHED", "KILLED"}  # KILLED: the pipeline and pretraining
