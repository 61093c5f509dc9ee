"""Ends of workflows: the reconciler tells MLflow once and rightly, also of an object store; judgement and promotion."""

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from argosy.core.store.step_files import OUTPUTS, STORE_URI
from argosy.core.tracking.mlflow.server import Server, default_uri
from tests.argo_fixtures import LINE, submitted
from tests.trees import read_files, write_files
from workflows.argo.client.api import ArgoClient
from workflows.argo.handoff import FOLDER
from workflows.argo.objectstore.files import Remote
from workflows.argo.objectstore.mirror import Mirror
from workflows.argo.objectstore.node import RemoteNode
from workflows.argo.objectstore.pods import judging, promoting
from workflows.argo.pod import finish
from workflows.argo.pod.finish import Reconciler, RemoteReconciler, conclude, folders
from workflows.argo.profile.profile import Profile
from workflows.local.shipping import PipelineTracker

pytestmark = pytest.mark.usefixtures("sent_here")
PIPELINE, SFT, EVALUATION = "0123456789ab", "sft-0123456789ab", "evaluate-0123456789ab"
JUDGE = "regressions-0123456789ab"
DONE = json.dumps({"outputs": {}, "made_from": {}})


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
    client = Server(default_uri(store), store).client
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
    beats_s: float, status: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def client(**phases: str) -> ArgoClient:
    return cast(ArgoClient, Cluster(**phases))


@pytest.fixture
def profile(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    storage = {"uri": bucket, "path": str(tmp_path / "mirror"), "directory": "store"}
    uri = f"sqlite:///{tmp_path}/mirror/store/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv(STORE_URI, bucket)  # which the pods of these tests set in this process
    return Profile.model_validate({"storage": storage, "tracking": {"uri": uri}})


def remote(profile: Profile) -> Remote:
    return Remote(profile.storage.uri, {})


def pushed(profile: Profile, workflow: str) -> None:
    """A plan and a step that was killed, in the bucket alone."""
    store = Path(profile.storage.root)
    submitted(store, workflow, PIPELINE)
    Mirror(remote(profile), store).push(FOLDER, ".pipelines", SFT)
    remote(profile).write(f"{SFT}/.lease", json.dumps({"owner": f"{workflow}/{SFT}", "token": "t"}).encode())
    shutil.rmtree(store)


def test_the_reconciler_tells_how_a_workflow_ended_and_removes_what_is_old(profile: Profile) -> None:
    pushed(profile, "wf")
    assert RemoteReconciler(profile, client(wf="Running"), keep_s=1e6).sweep() == 0
    assert f"{FOLDER}/wf/finished.json" not in remote(profile).list()
    assert RemoteReconciler(profile, client(), keep_s=1e6).sweep() == 0  # deleted
    assert json.loads(remote(profile).read(f"{FOLDER}/wf/finished.json") or b"") == {"status": "KILLED"}
    spool = (remote(profile).read(f"{SFT}/tracking/spool.jsonl") or b"").decode().splitlines()
    assert [json.loads(line)["value"] for line in spool if '"kind":"status"' in line] == ["RUNNING", "KILLED"]
    assert f"{SFT}/.lease" not in remote(profile).list()

    assert RemoteReconciler(profile, client(wf="Running"), keep_s=1e6).sweep() == 0  # argo retry: it is to end again
    assert f"{FOLDER}/wf/finished.json" not in remote(profile).list()
    remote(profile).write(f"{FOLDER}/wf/finished.json", b'{"status": "KILLED"}')
    RemoteReconciler(profile, client(), keep_s=-10).sweep()
    assert not remote(profile).list(FOLDER)


def test_the_reconciler_leaves_a_night_alone_that_is_being_planned(profile: Profile) -> None:
    remote(profile).write(f"{FOLDER}/planning/night.json", b"{}")  # plan.json comes in a moment
    assert RemoteReconciler(profile, client(), keep_s=-10).sweep() == 0
    assert f"{FOLDER}/planning/night.json" in remote(profile).list(FOLDER)


def test_a_judgement_finds_the_night_s_evaluations_and_its_own_results_stay(profile: Profile) -> None:
    store = Path(profile.storage.root)
    evaluation = write_files(store / EVALUATION, {OUTPUTS: DONE, "items.parquet": "rows"})
    RemoteNode(remote(profile), store, EVALUATION).push()
    night = {"p": {"pairs": [{"new": [str(evaluation)], "reference_evaluations": []}]}}
    remote(profile).write(f"{FOLDER}/wf/night.json", json.dumps(night).encode())
    shutil.rmtree(store)
    with judging(profile, "wf"):
        assert (evaluation / "items.parquet").is_file()
        write_files(store / JUDGE, {OUTPUTS: DONE, "report.html": "worse"})
        write_files(store / ".nightly", {"told.json": "{}"})
    assert remote(profile).read(f"{JUDGE}/report.html") == b"worse"
    shutil.rmtree(store)
    with judging(profile, "wf-2"):
        assert (store / JUDGE / OUTPUTS).is_file()
        assert (store / ".nightly/told.json").is_file()
    assert remote(profile).read(f"{JUDGE}/report.html") == b"worse"  # not here, so not touched


def test_a_promotion_finds_the_comparison_and_the_checkpoints_configs(profile: Profile) -> None:
    pushed(profile, "wf")
    store, at = Path(profile.storage.root), remote(profile)
    at.write(f"{SFT}/{OUTPUTS}", DONE.encode())
    at.write(f"{SFT}/checkpoints/final/config.json", b"{}")
    at.write(f"{SFT}/checkpoints/final/model.safetensors", b"w" * (2**20 + 1))
    compare = "compare-0123456789ab"
    at.write(f"{compare}/{OUTPUTS}", DONE.encode())
    at.write(f"{compare}/run.json", json.dumps({"config": {"checkpoints": [str(store / SFT)]}}).encode())
    plan = json.loads(at.read(f"{FOLDER}/wf/plan.json") or b"")
    at.write(f"{FOLDER}/wf/plan.json", json.dumps({**plan, "report": str(store / compare)}).encode())
    at.write(f"{EVALUATION}/{OUTPUTS}", DONE.encode())
    at.write(f"{EVALUATION}/items.parquet", b"rows")
    at.write(f".pipelines/{PIPELINE}/config.json", b"{}")
    with promoting(profile, "wf") as fetch:
        assert (store / EVALUATION / OUTPUTS).is_file()  # so that it is found
        fetch([store / EVALUATION, Path("/elsewhere") / EVALUATION])
        assert (store / EVALUATION / "items.parquet").read_bytes() == b"rows"
        assert (store / f".pipelines/{PIPELINE}/config.json").is_file()  # which has the gate
        write_files(store / ".promotions", {"evidence.json": "{}"})
        here = read_files(store).keys()
    assert {f"{compare}/{OUTPUTS}", f"{SFT}/checkpoints/final/config.json", f"{SFT}/tracking/spool.jsonl"} <= here
    assert not [name for name in here if name.endswith(".safetensors")]
    assert f"{SFT}/.lease" in at.list()  # the workflow goes on
    assert at.read(".promotions/evidence.json") == b"{}"
