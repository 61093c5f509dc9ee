"""The CronWorkflow on a real controller: it fires, evaluates the one new checkpoint, and then does nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.step_files import read_done
from tests.cluster.cluster import GROUP, VERSION, Cluster, pod_nodes

pytestmark = pytest.mark.cluster
NAME = "nightly-eval"
SMALL = "pretrain.exports=[1.0]\nevaluate.limit=4\nevaluate.suites={benchmark: final}"


def nights(cluster: Cluster) -> list[dict[str, Any]]:
    """Workflows that the schedule started, the first one first."""
    labels = f"workflows.argoproj.io/cron-workflow={NAME}"
    found = cluster.custom().list_namespaced_custom_object(
        GROUP, VERSION, cluster.namespace, "workflows", label_selector=labels
    )
    return sorted(found["items"], key=lambda each: str(each["metadata"]["creationTimestamp"]))


def set_schedule(cluster: Cluster, *, suspend: bool) -> None:
    spec = {"schedules": ["* * * * *"], "suspend": suspend}
    cluster.custom().patch_namespaced_custom_object(
        GROUP, VERSION, cluster.namespace, "cronworkflows", NAME, {"spec": spec}
    )


@pytest.fixture
def every_minute(cluster: Cluster) -> Iterator[None]:
    """The schedule fires each minute, and no night of an earlier test is there."""
    for night in nights(cluster):
        cluster.custom().delete_namespaced_custom_object(
            GROUP, VERSION, cluster.namespace, "workflows", night["metadata"]["name"]
        )
    set_schedule(cluster, suspend=False)
    try:
        yield
    finally:
        set_schedule(cluster, suspend=True)


def ended(cluster: Cluster, number: int) -> dict[str, Any]:
    """The night `number` (from 0) once it has ended."""
    cluster.until(lambda: len(nights(cluster)) > number, f"night {number} to start")
    return cluster.wait(str(nights(cluster)[number]["metadata"]["name"]))


def ran(workflow: dict[str, Any]) -> set[str]:
    return {node["templateName"] for node in pod_nodes(workflow)}


def test_a_night_evaluates_the_one_new_checkpoint_and_the_next_one_does_nothing(
    cluster: Cluster, store: Path, request: pytest.FixtureRequest
) -> None:
    trained = cluster.submit(to="pretrain", overrides=SMALL)
    assert cluster.wait(trained)["status"]["phase"] == "Succeeded"
    request.getfixturevalue("every_minute")

    first = ended(cluster, 0)
    assert first["status"]["phase"] == "Succeeded"
    assert ran(first) == {"plan", "step", "judge", "finish"} | ({"show"} if cluster.profile.artifacts else set())
    [evaluation] = store.glob("evaluate-*")
    assert read_done(evaluation)
    [judgement] = store.glob("regressions-*")
    [judged] = json.loads((judgement / "outputs.json").read_text())["outputs"]["judged"]
    assert judged["stage"] == "pretrain"

    before = (evaluation / "run.json").read_bytes()
    second = ended(cluster, 1)
    assert second["status"]["phase"] == "Succeeded"
    assert ran(second) == {"plan"}
    assert (evaluation / "run.json").read_bytes() == before
    assert len(list(store.glob("regressions-*"))) == 1
