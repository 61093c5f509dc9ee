"""A tree of post-training on a real controller: the laptop's bytes, and a branch that fails holds up no other."""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, pod_nodes
from tests.end_to_end.crash import run
from tests.store_comparison import differences

pytestmark = pytest.mark.cluster
TREE = """\
posttraining:
  - {name: chat, method: sft, max_steps: 20}
  - {name: better, from: chat, method: best_of_n, rewards: {ended: 1.0}, n: 4}
  - {name: again, from: chat, method: sft, data: better, max_steps: 2, batch_size: 2}
  - {name: simple, from: chat, method: simpo, beta: 2.0, max_steps: 2}
"""
WITHOUT = "long_context=null", "anneal=null", "evaluate.suites={benchmark: final, probes: none, heldout: none}"
ITEMS = {"chat", "better", "again", "simple"}


def items(cluster: Cluster, name: str, phase: str) -> set[str]:
    """Items of the tree whose pods ended so."""
    found = (node for node in pod_nodes(cluster.get(name)) if ")." in node["name"] and node["phase"] == phase)
    return {node["name"].rpartition(").")[2].partition(":")[2].partition(")")[0] for node in found} & ITEMS


def test_a_tree_makes_the_bytes_of_the_laptop(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    file = tmp_path / "tree.yaml"
    file.write_text(TREE)
    name = cluster.submit(config=TREE, overrides="\n".join(WITHOUT))
    run(tmp_path / "laptop", "--config", str(file), *WITHOUT)
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, tmp_path / "laptop") == []
    assert items(cluster, name, "Succeeded") == ITEMS


def test_a_branch_that_fails_leaves_the_others_running(cluster: Cluster, store: Path) -> None:
    broken = "posttraining.better.max_new_tokens=100000"  # more than the context: the step finds out
    name = cluster.submit(config=TREE, overrides="\n".join((*WITHOUT, broken)))
    assert cluster.wait(name)["status"]["phase"] == "Failed"
    assert items(cluster, name, "Succeeded") == {"chat", "simple"}
    assert items(cluster, name, "Failed") == {"better"}
