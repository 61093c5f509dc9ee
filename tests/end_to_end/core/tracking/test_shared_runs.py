"""Pods whose stores are mirrors of a bucket share no lock: what they make in MLflow at one moment ends as one."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.step_files import STORE_URI
from argosy.core.tracking.mlflow import runs
from argosy.core.tracking.mlflow.runs import Models, Runs
from argosy.core.tracking.mlflow.server import CHECKPOINT, Server, create_database
from argosy.core.tracking.spool import Owner

PODS = 3
OWNER = Owner(node="evaluate", part="", step="evaluate", digest="0123456789ab", pipeline="aaaabbbbcccc", line="demo",
              time=1)  # fmt: skip


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """One for each pod, with a directory of its own and one database."""
    monkeypatch.setenv(STORE_URI, "s3://bucket/runs")
    monkeypatch.setattr(runs, "WAIT_S", 2.0)  # longer than a write waits here for the others' writes
    create_database(tmp_path / "mlflow.db")
    found = [Server(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / f"pod-{n}") for n in range(PODS)]
    for server in found:
        server.store.mkdir()
        server.client.get_experiment_by_name("demo")
    found[0].client.create_experiment("demo", artifact_location=(tmp_path / "artifacts").as_uri())
    return found


def at_once(calls: list[Callable[[], str]]) -> set[str]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return {future.result() for future in [pool.submit(call) for call in calls]}


def nothing_at_first(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, looks: int = 1) -> None:
    """Each pod's first looks come before any other pod has made something."""
    real, barrier, looked = getattr(owner, name), threading.Barrier(PODS), threading.local()

    def search(self: Any, *arguments: Any, **options: Any) -> Any:
        found = real(self, *arguments, **options)
        looked.times = getattr(looked, "times", 0) + 1
        if threading.current_thread() is not threading.main_thread() and looked.times <= looks:
            barrier.wait(300)
        return found

    monkeypatch.setattr(owner, name, search)


@pytest.mark.parametrize("kind", ["parent", "curves"])
def test_runs_that_are_made_at_once_become_one(servers: list[Server], monkeypatch: pytest.MonkeyPatch,
                                               kind: str) -> None:
    nothing_at_first(monkeypatch, type(servers[0].client), "search_runs")
    pods = [Runs(server) for server in servers]
    calls = [(lambda pod=pod: pod.parent(OWNER) if kind == "parent" else pod.curves(OWNER, "")) for pod in pods]
    [kept] = at_once(calls)
    assert [run.info.run_id for run in servers[0].client.search_runs([pods[0].experiment("demo")])] == [kept]
    late = Runs(servers[1])
    assert (late.parent(OWNER) if kind == "parent" else late.curves(OWNER, "")) == kept


def test_models_that_are_made_at_once_become_one_which_names_its_place_in_the_bucket(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_at_first(monkeypatch, Server, "models_of", looks=2)
    key = "0123456789ab/p100"

    def evaluated(server: Server) -> str:
        path = server.store / "sft-0123456789ab/checkpoints/p100"
        record = {"checkpoint": key, "path": str(path), "tokens": 10}
        return Models(server, Runs(server)).evaluated(OWNER, record)

    [kept] = at_once([lambda server=server: evaluated(server) for server in servers])
    client = servers[0].client
    experiment = client.get_experiment_by_name("demo").experiment_id
    [model] = client.search_logged_models([experiment], f"tags.`{CHECKPOINT}` = '{key}'")
    assert (model.model_id, model.tags["path"]) == (kept, "s3://bucket/runs/sft-0123456789ab/checkpoints/p100")
