"""A step of several processes in one pod: two ranks under one lease make the bytes of two ranks on a laptop."""

from pathlib import Path

import pytest

from argosy.core.store.files import read_record
from argosy.core.store.lease import LEASE
from argosy.core.store.step_files import RUN, rank_log
from tests.cluster.cluster import Cluster, pod_nodes
from tests.end_to_end.crash import RANKS, run
from tests.store_comparison import differences

pytestmark = pytest.mark.cluster


def test_two_ranks_of_a_pod_make_the_bytes_of_two_ranks_on_a_laptop(
    cluster: Cluster, store: Path, tmp_path: Path
) -> None:
    name = cluster.submit(to="sft", overrides="\n".join((*RANKS, "long_context=null", "anneal=null", "twin=false")))
    run(tmp_path / "laptop", "--to", "sft", *RANKS, "long_context=null", "anneal=null", "twin=false")
    assert cluster.wait(name)["status"]["phase"] == "Succeeded"
    assert differences(store, tmp_path / "laptop") == []
    tasks = [node["displayName"].partition("(")[0] for node in pod_nodes(cluster.get(name))]
    for stage in ("pretrain", "sft"):
        [directory] = store.glob(f"{stage}-*")
        assert tasks.count(stage) == read_record(directory / RUN)["attempts"] == 1  # one pod, one lease
        assert all((directory / rank_log(rank)).is_file() for rank in range(2))
        assert not (directory / LEASE).exists()
