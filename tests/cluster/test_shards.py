"""Cleaning in two hundred shards on a real controller: the laptop's bytes, and decisions alone for a new threshold."""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, pod_nodes
from tests.end_to_end.crash import run
from tests.store_comparison import differences

pytestmark = pytest.mark.cluster
SHARDS = 200
STRICTER = 'clean.filters=[unicode, {name: gopher_quality, min_words: %d}, exact_dedup, near_dedup]'


def pods_of(cluster: Cluster, name: str) -> dict[str, int]:
    """Pods of a workflow by task."""
    tasks = [node["displayName"].partition("(")[0] for node in pod_nodes(cluster.get(name))]
    return {task: tasks.count(task) for task in tasks}


def test_two_hundred_shards_run_in_batches_and_a_threshold_runs_decisions_alone(
    cluster: Cluster, store: Path, tmp_path: Path
) -> None:
    first, second = ((f"clean.shards={SHARDS}", STRICTER % least) for least in (50, 80))
    name = cluster.submit(to="clean", overrides="\n".join(first))
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert len(list(store.glob("score-*/outputs.json"))) == SHARDS
    assert pods_of(cluster, name)["score"] == SHARDS // 8  # parts share a process

    changed = cluster.submit(to="clean", overrides="\n".join(second))
    assert cluster.wait(changed)["status"]["phase"] == "Succeeded"
    assert {"plan", "clean"} <= set(pods_of(cluster, changed)) <= {"plan", "clean", "show", "finish"}

    for overrides in (first, second):
        run(tmp_path / "laptop", "--to", "clean", *overrides)
    assert differences(store, tmp_path / "laptop") == []
