"""The reconciler: whoever ended without a word is told to MLflow, once and rightly."""

import json
import os
import threading
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from argosy.core.tracking.mlflow.server import default_uri
from tests.argo_fixtures import LINE, submitted
from workflows.argo.client.api import ArgoClient
from workflows.argo.pod import finish
from workflows.argo.pod.finish import Reconciler, conclude, folders
from workflows.local.shipping import PipelineTracker

pytestmark = pytest.mark.usefixtures("sent_here")


class Cluster:
    """A client of workflows, by name."""

    namespace = "argosy"

    def __init__(self, **phases: str) -> None:
        self.workflows = {name: self.workflow(phase) for name, phase in phases.items()}

    @staticmethod
    def workflow(phase: str, **spec: str) -> dict[str, Any]:
        return {"spec": spec, "status": {"phase": phase}}

    def phases(self) -> dict[str, str]:
        return {name: each["status"]["phase"] for name, each in self.workflows.items()}

    def get(self, name: str) -> dict[str, Any]:
        return self.workflows[name]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def reconciler(store: Path, cluster: Cluster, keep_s: float = 1e6, name: str = "") -> Reconciler:
    return Reconciler(store, cast(ArgoClient, cluster), keep_s, name)


def statuses(store: Path) -> dict[str, str]:
    """Of the runs in MLflow."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=default_uri(store))
    experiment = client.get_experiment_by_name(LINE)
    return {run.info.run_name: run.info.status for run in client.search_runs([experiment.experiment_id])}


def finished(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / "finished.json").read_text()))


def test_deleted_terminated_and_ended_workflows_get_their_true_status(store: Path) -> None:
    expected = {"deleted": "KILLED", "terminated": "KILLED", "failed": "FAILED", "broken": "FAILED", "done": "FINISHED",
                "running": "RUNNING", "stopping": "RUNNING", "new": "RUNNING"}
    for number, name in enumerate(expected):
        submitted(store, name, f"{number}" * 12)
    cluster = Cluster(failed="Failed", broken="Error", done="Succeeded", running="Running")
    cluster.workflows["terminated"] = cluster.workflow("Failed", shutdown="Terminate")
    cluster.workflows["stopping"] = cluster.workflow("Running", shutdown="Stop")
    cluster.workflows["new"] = cluster.workflow("Pending")
    assert reconciler(store, cluster).sweep() == 0
    found = statuses(store)
    assert reconciler(store, cluster).sweep() == 0
    assert [found[f"{LINE} {n * 12}"] for n in "01234567"] == [*expected.values()]
    assert [found[f"sft-{n * 12}"] for n in "01234567"] == ["KILLED"] * 5 + ["RUNNING"] * 3
    ended = {folder.name: finished(folder)["status"] for folder in folders(store)
             if (folder / "finished.json").exists()}
    assert ended == {name: status for name, status in expected.items() if status != "RUNNING"}


def test_what_was_submitted_again_says_how_it_ended(store: Path) -> None:
    first = submitted(store, "first", "a" * 12, age_s=60)
    submitted(store, "second", "a" * 12)
    assert reconciler(store, Cluster(second="Running")).sweep() == 0
    assert finished(first) == {"status": "KILLED", "superseded": "second"}
    assert PipelineTracker(store, "a" * 12, LINE).tracker.last_status == "RUNNING"


def test_what_mlflow_does_not_take_is_told_later(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = submitted(store, "deleted", "a" * 12)
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        assert reconciler(store, Cluster()).sweep() == 1
    assert not (folder / "finished.json").exists()
    assert reconciler(store, Cluster()).sweep() == 0
    assert finished(folder) == {"status": "KILLED"}
    assert statuses(store)[f"{LINE} {'a' * 12}"] == "KILLED"


def test_old_folders_of_workflows_that_are_gone_are_removed(store: Path) -> None:
    old, kept = submitted(store, "old", "a" * 12), submitted(store, "kept", "b" * 12)
    for folder in (old, kept):
        (folder / "finished.json").write_text('{"status": "FINISHED"}')
        os.utime(folder / "finished.json", (1, 1))
    assert reconciler(store, Cluster(kept="Succeeded"), keep_s=60).sweep() == 0
    assert not old.exists()
    assert kept.exists()  # it can still be retried in the UI


def hold(directory: Path, beats_s: float = 0) -> threading.Event:
    """A lease of a process on another machine; with `beats_s` it lives until the event is set."""
    lease, ended = directory / ".lease", threading.Event()
    lease.write_text(json.dumps({"host": "node-7", "pid": 1, "started": "1", "machine": "another", "token": "t"}))

    def beat() -> None:
        while not ended.wait(beats_s):
            os.utime(lease)

    if beats_s:
        threading.Thread(target=beat, daemon=True).start()
    return ended


@pytest.mark.parametrize(("beats_s", "status"), [(0, "KILLED"), (0.1, "RUNNING")])
def test_a_node_runs_on_where_another_workflow_is_at_it_and_not_where_its_pod_was_killed_before_the_end(
    beats_s: float, status: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGOSY_LEASE_SECONDS", "1")
    folder = submitted(store, "ended", "a" * 12)
    ended = hold(store / f"sft-{'a' * 12}", beats_s)
    conclude(folder / "plan.json", "FAILED")
    ended.set()
    assert statuses(store) == {f"{LINE} {'a' * 12}": "FAILED", f"sft-{'a' * 12}": status}


def test_workflows_of_another_namespace_or_cluster_are_left_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where: dict[str, dict[str, Any]] = {"theirs": {"namespace": "team-b", "cluster": "east"},
                                        "west": {"namespace": "argosy", "cluster": "west"},
                                        "ours": {"namespace": "argosy", "cluster": "east"}}
    for number, (name, at) in enumerate(where.items()):
        submitted(store, name, f"{number}" * 12, **at)
    told = Mock()
    monkeypatch.setattr(finish, "conclude", told)
    reconciler(store, Cluster(), name="east").sweep()
    assert [call.args for call in told.call_args_list] == [(store / ".argo/ours/plan.json", "KILLED")]
