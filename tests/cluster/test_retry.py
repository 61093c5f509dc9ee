"""Argo's own retry, by its server, after a stop: a workflow goes on from its steps' state, or says how it would."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.step_files import RUN
from tests.cluster.cluster import Cluster, pod_nodes
from tests.store_comparison import differences
from workflows.argo.client.ways import ServerClient

pytestmark = pytest.mark.cluster


@pytest.fixture
def server(cluster: Cluster) -> ServerClient:
    """The Argo server of ARGO_SERVER."""
    address = os.environ.get("ARGO_SERVER", "")
    if not address:
        pytest.skip("ARGO_SERVER names no Argo server")
    return ServerClient(address, cluster.namespace)


def stop(cluster: Cluster, name: str) -> None:
    cluster.patch(name, {"spec": {"shutdown": "Stop"}})
    assert cluster.wait(name)["status"]["phase"] == "Failed"
    cluster.until(lambda: cluster.get(name)["status"].get("finishedAt"), f"the exit handler of {name}")


def ask(server: ServerClient, name: str, what: str, body: Mapping[str, Any] | None = None) -> None:
    server.transport.ask("PUT", f"/api/v1/workflows/{server.namespace}/{name}/{what}", dict(body or {}))


def test_a_workflow_that_is_stopped_in_the_middle_and_retried(
    cluster: Cluster, server: ServerClient, store: Path, laptop: Path
) -> None:
    name = cluster.submit(to="long_context")
    cluster.running(name, "pretrain")
    stop(cluster, name)
    assert json.loads((store / ".argo" / name / "finished.json").read_text()) == {"status": "KILLED"}

    server.retry(cluster.get(name))
    cluster.until(lambda: cluster.phase(name) == "Running", "the retried workflow")
    ended = cluster.wait(name)
    assert ended["status"]["phase"] == "Succeeded", ended["status"].get("message")
    assert differences(store, laptop) == []
    [clean], [pretrain] = (list(store.glob(f"{stage}-*")) for stage in ("clean", "pretrain"))
    assert read_record(clean / RUN)["attempts"] == 1
    assert read_record(pretrain / RUN)["attempts"] == 2
    cluster.until(lambda: json.loads((store / ".argo" / name / "finished.json").read_text())["status"] == "FINISHED",
                  "the pipeline's true status")  # fmt: skip


def waits(cluster: Cluster, name: str) -> bool:
    nodes = cluster.get(name).get("status", {}).get("nodes", {}).values()
    return any(node["type"] == "Suspend" and node["phase"] == "Running" for node in nodes)


def test_a_retry_that_can_start_nothing_says_how_to_go_on_and_goes_on_from_the_plan(
    cluster: Cluster, server: ServerClient, store: Path, laptop: Path
) -> None:
    here_alone = shutil.ignore_patterns("mlflow*", "mlartifacts", "mlruns", ".lease")
    shutil.copytree(laptop, store, ignore=here_alone, dirs_exist_ok=True)  # all is done: the question comes at once
    for path in (store, *store.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)  # pods are another user
    name = cluster.submit(promote="ask")
    cluster.until(lambda: waits(cluster, name), "the question")
    stop(cluster, name)
    finished = store / ".argo" / name / "finished.json"
    cluster.until(lambda: json.loads(finished.read_text()) == {"status": "KILLED"}, "the pipeline's true status")

    ask(server, name, "retry")  # as the UI's button without its options
    cluster.until(lambda: cluster.phase(name) == "Failed" and cluster.get(name)["status"].get("finishedAt"), "its end")
    [finish] = [node for node in pod_nodes(cluster.get(name)) if node["templateName"] == "finish"]
    assert finish["phase"] == "Failed"
    assert f"argo retry {name} --restart-successful --node-field-selector displayName=plan" in finish["message"]

    server.retry(cluster.get(name))
    cluster.until(lambda: waits(cluster, name), "the question, again")
    [data] = store.glob("data-*")
    assert read_record(data / RUN)["attempts"] == 1
    selector = {"nodeFieldSelector": "displayName=approve"}
    ask(server, name, "set", selector | {"outputParameters": json.dumps({"decision": "keep", "by": "tests"})})
    ask(server, name, "resume", selector)
    ended = cluster.wait(name)
    assert ended["status"]["phase"] == "Succeeded", ended["status"].get("message")
