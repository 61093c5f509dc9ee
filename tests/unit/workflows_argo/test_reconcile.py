"""The reconciler against an API server over HTTP: whoever ended without a word is told to MLflow, once and rightly."""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from argosy.tracking.mlflow.server import default_uri
from argosy.tracking.tracker import PipelineTracker, Tracker
from tests.nightly_fixtures import serving
from workflows.argo.client.transport import HttpTransport
from workflows.argo.handoff import Handoff
from workflows.argo.pod import reconcile
from workflows.argo.pod.finish import conclude
from workflows.argo.pod.reconcile import Reconciler, folders, status_of

LINE = "a line"


class Cluster:
    """A fake API server's workflows; `events` are what a watch yields, `broken` is an HTTP status for all."""

    def __init__(self) -> None:
        self.workflows: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.broken = 0
        self.silent_s = 0.0

    def set(self, name: str, phase: str, **spec: str) -> None:
        self.workflows[name] = {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}

    @contextmanager
    def served(self) -> Iterator[str]:
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cluster.asked.append(self.path)
                self.send_response(cluster.broken or 200)
                self.end_headers()
                if cluster.broken:
                    return
                if "watch=1" in self.path:
                    self.wfile.flush()
                    time.sleep(cluster.silent_s)
                    for event in cluster.events:
                        self.wfile.write(json.dumps(event).encode() + b"\n")
                    return
                items = list(cluster.workflows.values())
                first = "continue=more" not in self.path
                metadata = {"resourceVersion": "7", "continue": "more" if first and len(items) > 1 else ""}
                page = items[:1] if first else items[1:]
                self.wfile.write(json.dumps({"items": page, "metadata": metadata}).encode())

            def log_message(self, *arguments: object) -> None:
                return

        with serving(Handler) as url:
            yield url


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def submitted(store: Path, workflow: str, pipeline: str, age_s: float = 0, **where: Any) -> Path:
    """What a plan and a killed step leave."""
    PipelineTracker(store, pipeline, LINE).start({"a": 1})
    step = Tracker(store / f"sft-{pipeline}" / "tracking")
    step.header(node="sft", part=pipeline, step="sft", digest=pipeline, pipeline=pipeline, line=LINE)
    step.status("RUNNING")
    step.close()
    node = {"dir": str(store / f"sft-{pipeline}")}
    handoff = Handoff(store=str(store), line=LINE, pipeline=pipeline, nodes={"sft": node}, batches={}, **where)
    path = handoff.write(workflow)
    os.utime(path, (time.time() - age_s,) * 2)
    return path.parent


def sweep(store: Path, url: str, keep_s: float = 1e6) -> int:
    return Reconciler(store, HttpTransport(url), "argosy", keep_s).sweep()


def statuses(store: Path) -> dict[str, str]:
    """Of the runs in MLflow."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=default_uri(store))
    experiment = client.get_experiment_by_name(LINE)
    assert experiment is not None
    return {run.info.run_name: run.info.status for run in client.search_runs([experiment.experiment_id])}


def finished(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / "finished.json").read_text()))


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        (None, "KILLED"),
        ({"status": {"phase": "Running"}}, None),
        ({"status": {}}, None),
        ({"status": {"phase": "Failed"}}, "FAILED"),
        ({"status": {"phase": "Error"}}, "FAILED"),
        ({"status": {"phase": "Succeeded"}}, "FINISHED"),
        ({"spec": {"shutdown": "Terminate"}, "status": {"phase": "Failed"}}, "KILLED"),
        ({"spec": {"shutdown": "Stop"}, "status": {"phase": "Running"}}, None),
    ],
)
def test_how_a_workflow_ended(workflow: dict[str, Any] | None, expected: str | None) -> None:
    assert status_of(workflow) == expected


def test_deleted_terminated_and_ended_workflows_get_their_true_status(store: Path) -> None:
    cluster = Cluster()
    for number, name in enumerate(("deleted", "terminated", "failed", "running")):
        submitted(store, name, f"{number}" * 12)
    cluster.set("terminated", "Failed", shutdown="Terminate")
    cluster.set("failed", "Failed")
    cluster.set("running", "Running")
    with cluster.served() as url:
        assert sweep(store, url) == 0
        found = statuses(store)
        assert sweep(store, url) == 0
    assert [found[f"{LINE} {n * 12}"] for n in "0123"] == ["KILLED", "KILLED", "FAILED", "RUNNING"]
    assert [found[f"sft-{n * 12}"] for n in "0123"] == ["KILLED", "KILLED", "KILLED", "RUNNING"]
    ended = {folder.name: finished(folder.path)["status"] for folder in folders(store) if folder.finished.exists()}
    assert ended == {"deleted": "KILLED", "terminated": "KILLED", "failed": "FAILED"}
    assert all(path.startswith("/apis/argoproj.io/v1alpha1/namespaces/argosy/workflows") for path in cluster.asked)


def test_what_was_submitted_again_says_how_it_ended(store: Path) -> None:
    first = submitted(store, "first", "a" * 12, age_s=60)
    submitted(store, "second", "a" * 12)
    cluster = Cluster()
    cluster.set("second", "Running")
    with cluster.served() as url:
        assert sweep(store, url) == 0
    assert finished(first) == {"status": "KILLED", "superseded": "second"}
    assert PipelineTracker(store, "a" * 12, LINE).tracker.last_status == "RUNNING"


def test_what_mlflow_does_not_take_is_told_later(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = submitted(store, "deleted", "a" * 12)
    with Cluster().served() as url:
        with monkeypatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
            assert sweep(store, url) == 1
        assert not (folder / "finished.json").exists()
        assert sweep(store, url) == 0
    assert finished(folder) == {"status": "KILLED"}
    assert statuses(store)[f"{LINE} {'a' * 12}"] == "KILLED"


def test_one_that_said_how_it_ended_and_is_gone_since_keeps_that(store: Path) -> None:
    folder = submitted(store, "gone", "a" * 12)
    (folder / "concluded.json").write_text('{"status": "FINISHED"}')  # MLflow did not answer then
    with Cluster().served() as url:
        assert sweep(store, url) == 0
    assert finished(folder) == {"status": "FINISHED"}


def test_a_retried_workflow_is_open_again(store: Path) -> None:
    folder = submitted(store, "again", "a" * 12)
    (folder / "finished.json").write_text('{"status": "FAILED"}')
    cluster = Cluster()
    cluster.set("again", "Running")
    with cluster.served() as url:
        assert sweep(store, url) == 0
        assert not (folder / "finished.json").exists()


def test_old_folders_of_workflows_that_are_gone_are_removed(store: Path) -> None:
    old, kept = submitted(store, "old", "a" * 12), submitted(store, "kept", "b" * 12)
    cluster = Cluster()
    cluster.set("kept", "Succeeded")
    for folder in (old, kept):
        (folder / "finished.json").write_text('{"status": "FINISHED"}')
        os.utime(folder / "finished.json", (1, 1))
    with cluster.served() as url:
        assert sweep(store, url, keep_s=60) == 0
    assert not old.exists()
    assert kept.exists()  # it can still be retried in the UI


@pytest.fixture
def concluded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is concluded, without MLflow."""
    found: list[tuple[str, str]] = []

    def conclude(plan: Path, status: str) -> None:
        found.append((plan.parent.name, status))
        (plan.parent / "finished.json").write_text("{}")

    monkeypatch.setattr(reconcile, "conclude", conclude)
    return found


def test_it_watches_rather_than_asks_again_and_again(store: Path, concluded: list[tuple[str, str]]) -> None:
    submitted(store, "wf", "a" * 12)
    cluster = Cluster()
    cluster.set("wf", "Running")
    running = cluster.workflows["wf"]
    cluster.events = [{"type": "BOOKMARK", "object": {}}, {"type": "MODIFIED", "object": running},
                      {"type": "DELETED", "object": running}]  # fmt: skip
    turns = iter([True, True, False])

    def forever() -> bool:
        if any("watch=1" in path for path in cluster.asked):
            cluster.workflows.clear()
        return next(turns)

    with cluster.served() as url:
        Reconciler(store, HttpTransport(url), "argosy", 60).follow(lambda seconds: None, forever)
    assert concluded == [("wf", "KILLED")]
    watches = [path for path in cluster.asked if "watch=1" in path]
    assert "resourceVersion=7" in watches[0]


def test_it_survives_an_api_server_that_is_away(
    store: Path, concluded: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(store, "wf", "a" * 12)
    cluster = Cluster()
    cluster.set("wf", "Failed")
    cluster.broken = 503
    pauses: list[float] = []
    turns = iter([True, True, True, False])

    def slept(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            cluster.broken = 0

    with cluster.served() as url:
        Reconciler(store, HttpTransport(url), "argosy", 60).follow(slept, lambda: next(turns))
    assert pauses == [1.0, 2.0]
    assert capsys.readouterr().err.count("asked again later") == 1  # one warning for each outage
    assert concluded == [("wf", "FAILED")]


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


def test_a_pod_that_was_killed_just_before_the_end_is_not_running_for_ever(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGOSY_LEASE_SECONDS", "1")
    folder = submitted(store, "killed", "a" * 12)
    hold(store / f"sft-{'a' * 12}")
    conclude(folder / "plan.json", "FAILED")
    assert statuses(store) == {f"{LINE} {'a' * 12}": "FAILED", f"sft-{'a' * 12}": "KILLED"}


def test_a_node_that_another_workflow_is_at_stays_running(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_LEASE_SECONDS", "1")
    folder = submitted(store, "stopped", "a" * 12)
    ended = hold(store / f"sft-{'a' * 12}", beats_s=0.1)
    conclude(folder / "plan.json", "KILLED")
    ended.set()
    assert statuses(store)[f"sft-{'a' * 12}"] == "RUNNING"


def test_one_unreadable_plan_holds_up_nobody(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = submitted(store, "broken", "a" * 12, age_s=60)
    (broken / "plan.json").write_text('{"store": 1, "from": "another version"}')
    folder = submitted(store, "deleted", "b" * 12)
    with Cluster().served() as url:
        reconciler = Reconciler(store, HttpTransport(url), "argosy", 1e6)
        assert [reconciler.sweep() for _ in range(2)] == [0, 0]
    assert finished(folder) == {"status": "KILLED"}
    assert not (broken / "finished.json").exists()
    assert capsys.readouterr().err.count("reconcile: broken: ") == 1


def test_workflows_of_another_namespace_or_cluster_are_left_alone(
    store: Path, concluded: list[tuple[str, str]]
) -> None:
    where: dict[str, dict[str, Any]] = {
        "theirs": {"namespace": "team-b", "cluster": "east"},
        "west": {"namespace": "argosy", "cluster": "west"},
        "ours": {"namespace": "argosy", "cluster": "east"},
    }
    for number, (name, at) in enumerate(where.items()):
        submitted(store, name, f"{number}" * 12, **at)
    with Cluster().served() as url:
        assert Reconciler(store, HttpTransport(url), "argosy", 1e6, "east").sweep() == 0
    assert concluded == [("ours", "KILLED")]


def test_a_watch_that_goes_silent_is_given_up(
    store: Path, concluded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reconcile, "SILENCE_S", 0.2)
    cluster = Cluster()
    cluster.silent_s = 3
    turns = iter([True, True, False])
    with cluster.served() as url:
        Reconciler(store, HttpTransport(url), "argosy", 60).follow(lambda _: None, lambda: next(turns))
    assert len([path for path in cluster.asked if "watch=1" in path]) == 2
    assert "asked again later" in capsys.readouterr().err
