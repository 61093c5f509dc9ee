"""Ends that no exit handler sees: the reconciler says them to MLflow. And what an API server accepts."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import GROUP, VERSION, Cluster
from workflows.argo.client.ways import KubernetesTransport
from workflows.argo.manifests.documents import manifests
from workflows.argo.profile.profile import load_profile, profile_names

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("how", ["terminated", "deleted"])
def test_the_reconciler_says_how_a_workflow_ended(cluster: Cluster, store: Path, how: str) -> None:
    name = cluster.submit(to="clean")
    cluster.running(name, "data")
    if how == "terminated":
        cluster.patch(name, {"spec": {"shutdown": "Terminate"}})
        assert cluster.wait(name)["status"]["phase"] == "Failed"
    else:
        where = (GROUP, VERSION, cluster.namespace, "workflows")
        cluster.custom().delete_namespaced_custom_object(*where, name)
        cluster.until(lambda: not cluster.pods(name), "the end of its pods")
    finished = store / ".argo" / name / "finished.json"
    assert not finished.exists()
    cluster.reconcile()
    assert json.loads(finished.read_text()) == {"status": "KILLED"}
    assert "RUNNING" not in runs(store)  # the step may have ended well just before
    assert "KILLED" in runs(store)  # the pipeline


def runs(store: Path) -> list[str]:
    """Statuses in MLflow."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{store}/mlflow.db")
    experiments = [each.experiment_id for each in client.search_experiments()]
    return [str(run.info.status) for run in client.search_runs(experiments)]


@pytest.mark.parametrize("name", profile_names())
def test_the_api_server_accepts_every_manifest(cluster: Cluster, name: str) -> None:
    from kubernetes import client, dynamic

    api, transport = dynamic.DynamicClient(client.ApiClient()), KubernetesTransport()
    query = {"dryRun": "All", "fieldManager": "argosy-tests", "force": "true", "fieldValidation": "Strict"}
    profile = load_profile(name).model_copy(update={"namespace": cluster.namespace})
    for documents in manifests(profile).values():
        for document in documents:
            kind: Any = api.resources.get(api_version=document["apiVersion"], kind=document["kind"])
            path = kind.path(name=document["metadata"]["name"], namespace=cluster.namespace)
            made = transport.ask("PATCH", path, document, query=query, kind="application/apply-patch+yaml")
            assert made["metadata"]["name"] == document["metadata"]["name"]
