"""What goes wrong in a cluster ends in the laptop's bytes, with nothing run twice."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.step_files import LOG, OUTPUTS, RUN
from tests.cluster.cluster import PATIENCE_S, Cluster, pod_nodes
from tests.store_comparison import differences

pytestmark = pytest.mark.cluster
RANGE = {"to": "long_context"}


def attempts(store: Path, stage: str) -> int:
    [directory] = store.glob(f"{stage}-*")
    return int(read_record(directory / RUN)["attempts"])


def check(cluster: Cluster, name: str, store: Path, laptop: Path) -> None:
    ended = cluster.wait(name)
    assert ended["status"]["phase"] == "Succeeded", ended["status"].get("message")
    assert differences(store, laptop) == []
    assert attempts(store, "clean") == 1  # what was done is not done again


def check_resumed(cluster: Cluster, name: str, store: Path, laptop: Path) -> None:
    check(cluster, name, store, laptop)
    assert attempts(store, "pretrain") == 2
    [directory] = store.glob("pretrain-*")
    assert "continuing after step" in (directory / LOG).read_text()


def freeze_in_the_middle(cluster: Cluster, name: str, store: Path) -> None:
    """Stops the process of pretraining once it has a state to go on from: however fast, it is in the middle then."""
    words = ("steps.pretrain", cluster.profile.storage.root)
    deadline = time.monotonic() + PATIENCE_S
    while not list(store.glob("pretrain-*/state/step-*")):
        assert time.monotonic() < deadline, "pretraining has saved no state"
        time.sleep(0.02)
    found = processes(*words)
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    if not found:
        cluster.wait(name)
        pytest.skip("the pods' processes are not this machine's, or it was too fast")
    assert not list(store.glob(f"pretrain-*/{OUTPUTS}"))


def test_a_pod_that_is_deleted(cluster: Cluster, store: Path, laptop: Path) -> None:
    name = cluster.submit(**RANGE)
    freeze_in_the_middle(cluster, name, store)
    cluster.delete_pod(cluster.running(name, "pretrain"))
    check_resumed(cluster, name, store, laptop)


def test_a_container_whose_process_is_killed(cluster: Cluster, store: Path, laptop: Path) -> None:
    name = cluster.submit(**RANGE)
    freeze_in_the_middle(cluster, name, store)
    [pod] = processes("workflows.argo.pod", "run", f"--workflow {name}", "pretrain-")
    os.kill(pod, signal.SIGKILL)
    check_resumed(cluster, name, store, laptop)


def processes(*words: str) -> list[int]:
    """Ids of Python processes of this machine that have all `words` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes().split(b"\0")
            text = b" ".join(command).decode(errors="replace")
            if command[0].endswith(b"python") and all(word in text for word in words):
                found.append(int(path.parent.name))
    return found


def test_too_little_memory(cluster: Cluster, store: Path, laptop: Path) -> None:
    name = cluster.submit(overrides="resources.data.memory_gb=0.03", to="data")
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    tried = [node for node in pod_nodes(cluster.get(name)) if node["displayName"].startswith("data(")]
    assert len(tried) > 1
    assert any("137" in str(node.get("outputs", {}).get("exitCode", "")) for node in tried)
    assert differences(store, laptop) == []


def test_a_controller_that_is_started_again(cluster: Cluster, store: Path, laptop: Path) -> None:
    name = cluster.submit(**RANGE)
    cluster.running(name, "tokenizer")
    cluster.delete_pods_of("app=workflow-controller")
    check(cluster, name, store, laptop)


def test_a_workflow_that_is_stopped_and_submitted_again(cluster: Cluster, store: Path, laptop: Path) -> None:
    name = cluster.submit(**RANGE)
    cluster.running(name, "pretrain")
    cluster.patch(name, {"spec": {"shutdown": "Stop"}})
    assert cluster.wait(name)["status"]["phase"] == "Failed"
    finished = store / ".argo" / name / "finished.json"
    assert json.loads(finished.read_text()) == {"status": "KILLED"}
    check(cluster, cluster.submit(**RANGE), store, laptop)


def test_two_workflows_of_the_same_work_share_it(cluster: Cluster, store: Path, laptop: Path) -> None:
    names = [cluster.submit(to="tokenize") for _ in range(2)]
    for name in names:
        assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, laptop) == []
    assert all(attempts(store, stage) == 1 for stage in ("data", "clean", "tokenizer", "tokenize"))
