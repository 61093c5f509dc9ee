"""Pods whose stores are mirrors of a bucket share no lock: what they make in MLflow at one moment ends as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from argosy.tracking import settle
from argosy.tracking.batches import Owner
from argosy.tracking.models import CHECKPOINT, Models
from argosy.tracking.runs import Runs
from argosy.tracking.server import STORE_URI, Server, create_database
from argosy.tracking.settle import SETTLED

PODS = 3
OWNER = Owner(node="evaluate", part="", step="evaluate", digest="0123456789ab", pipeline="aaaabbbbcccc", line="demo",
              time=1)  # fmt: skip


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """One for each pod, with a directory of its own and one database."""
    monkeypatch.setenv(STORE_URI, "s3://bucket/runs")
    monkeypatch.setattr(settle, "WAIT_S", 2.0)  # longer than a write waits here for the others' writes
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


def nothing_at_first(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Each pod's first look comes before any other pod has made something."""
    real, barrier, looked = getattr(owner, name), threading.Barrier(PODS), threading.local()

    def search(self: Any, *arguments: Any) -> Any:
        found = real(self, *arguments)
        if threading.current_thread() is not threading.main_thread() and not getattr(looked, "once", False):
            looked.once = True
            barrier.wait(60)
        return found

    monkeypatch.setattr(owner, name, search)


@pytest.mark.parametrize("kind", ["parent", "curves"])
def test_runs_that_are_made_at_once_become_one(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    nothing_at_first(monkeypatch, Runs, "_search")
    pods = [Runs(server) for server in servers]
    asked = [(lambda pod=pod: pod.parent(OWNER) if kind == "parent" else pod.curves(OWNER, "")) for pod in pods]
    [kept] = at_once(asked)
    client = servers[0].client
    there = client.search_runs([pods[0].experiment("demo")])
    assert [run.info.run_id for run in there] == [kept]
    assert SETTLED in there[0].data.tags
    assert sum(kept in pod.created for pod in pods) <= 1  # the others have to look whether a point is there
    late = Runs(servers[1])
    assert (late.parent(OWNER) if kind == "parent" else late.curves(OWNER, "")) == kept


def test_models_that_are_made_at_once_become_one_which_names_its_place_in_the_bucket(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_at_first(monkeypatch, Models, "_all")
    key = "0123456789ab/p100"

    def evaluated(server: Server) -> str:
        path = server.store / "sft-0123456789ab/checkpoints/p100"
        record = {"checkpoint": key, "path": str(path), "tokens": 10}
        return Models(server, Runs(server)).evaluated(OWNER, record)

    [kept] = at_once([lambda server=server: evaluated(server) for server in servers])
    client = servers[0].client
    experiment = client.get_experiment_by_name("demo").experiment_id
    [model] = client.search_logged_models([experiment], f"tags.`{CHECKPOINT}` = '{key}'")
    assert model.model_id == kept
    assert model.tags["path"] == "s3://bucket/runs/sft-0123456789ab/checkpoints/p100"


def test_one_that_is_marked_is_taken_though_another_has_a_lower_id() -> None:
    there = {"b": True, "a": False}
    removed: list[str] = []
    settling = settle.Settling(search=lambda: list(there), key=str, is_marked=lambda each: there[each],
                               mark=lambda each: pytest.fail("marked already"), remove=removed.append)  # fmt: skip
    assert settling.settle("a", made=True, pause=lambda _: None) == "b"
    assert removed == ["a"]
    assert settling.settle("b", made=False, pause=lambda _: pytest.fail("waited")) == "b"


def test_two_that_marked_different_ones_agree_after_another_look() -> None:
    there = {"b": False}
    removed: list[str] = []

    def marked(name: str) -> None:
        there.update({name: True, "a": True})  # another process, which did not see b, marked its own meanwhile

    settling = settle.Settling(search=lambda: list(there), key=str, is_marked=lambda each: there[each], mark=marked,
                               remove=removed.append)  # fmt: skip
    assert settling.settle("b", made=True, pause=lambda _: None) == "a"
    assert removed == ["b"]


def test_two_that_mark_at_the_same_moment_agree() -> None:
    there = {"a": False}

    def refused(name: str) -> None:
        there[name] = True  # the other process was first
        raise RuntimeError("UNIQUE constraint failed")

    def fails(_: str) -> None:
        raise RuntimeError("the server is gone")

    def settling(mark: Callable[[str], None]) -> settle.Settling[str]:
        return settle.Settling(search=lambda: list(there), key=str, is_marked=lambda each: there[each], mark=mark,
                               remove=lambda _: pytest.fail("removed"))  # fmt: skip

    with pytest.raises(RuntimeError, match="gone"):
        settling(fails).settle("a", made=True, pause=lambda _: None)
    assert settling(refused).settle("a", made=True, pause=lambda _: None) == "a"
