"""The check of machines before the ranks of a step begin, with a bad one planted among them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.core.nodes.bad import BAD, NODE_NAME
from argosy.core.step.ranks.launcher import ADDRESS, EXTERNAL, JOIN, NODE, end_groups
from argosy.core.step.ranks.member import JOIN_WAIT, JOINED
from argosy.core.store.files import read_record
from argosy.core.store.step_files import ERROR, STATE
from tests.argo_fixtures import plan_pod, write_profile
from tests.end_to_end.core.step.test_ranks import ended, start
from workflows.argo.profile.pods import NO_NODE, away

PLANT = """
import os, time
if os.environ.get("RANK") == "{rank}" and os.environ.get("LOCAL_WORLD_SIZE"):
    import torch
    right = torch.Tensor.__matmul__
    def planted(a, b):
        c = right(a, b)
        if c.dtype == torch.float32:
            {what}
        return c
    torch.Tensor.__matmul__ = planted
"""
SLOW, WRONG = "time.sleep(0.6)", "c[17, 5] += 1"


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose sitecustomize.py every process of a step runs first."""
    folder = tmp_path / "plant"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    return folder


def test_good_ranks_are_checked_and_the_step_goes_on(tmp_path: Path) -> None:
    code, text = ended(start(tmp_path, processes=3, preflight="on"))
    assert code == 0, text
    assert "3 ranks checked in " in (tmp_path / "log-rank2.txt").read_text()
    assert "restarts" not in read_record(tmp_path / "run.json")
    again = tmp_path / "again"
    assert ended(start(again, processes=3))[0] == 0  # by default not on a CPU of one machine
    assert "ranks checked" not in (again / "log-rank2.txt").read_text()


@pytest.mark.parametrize(("what", "why"), [(WRONG, "wrong result of a matrix product"),
                                           (SLOW, "its matrix product took ")])
def test_a_bad_rank_is_named_with_what_it_measured_and_nothing_is_computed(tmp_path: Path, plant: Path, what: str,
                                                                           why: str) -> None:
    (plant / "sitecustomize.py").write_text(PLANT.format(rank=1, what=what))
    out = tmp_path / "out"
    code, text = ended(start(out, processes=3, preflight="on", restarts=2))
    assert code == 1
    assert "the check before the step found rank 1 on " in text
    assert f": {why}" in text
    error = json.loads((out / "error.json").read_text())
    assert (error["cause"], error["rank"], list(error["bad"])) == ("node", 1, ["1"])
    assert "(product 0." in error["message"]
    assert "min_nodes" in error["advice"]
    assert not (out / "data.bin").exists()


@pytest.mark.parametrize("fields", [{"nodes": 3, "min_nodes": 2}, {"min_processes": 2}], ids=["node", "place"])
def test_a_bad_node_or_place_is_left_out_where_enough_others_are_there(tmp_path: Path, plant: Path,
                                                                       fields: dict[str, int]) -> None:
    (plant / "sitecustomize.py").write_text(PLANT.format(rank='1" and os.environ.get("WORLD_SIZE") == "3', what=WRONG))
    out, unit = tmp_path / "out", "nodes" if "nodes" in fields else "processes"
    code, text = ended(start(out, processes=3, preflight="on", restarts=0, **fields))
    assert code == 0, text
    restart, = read_record(out / "run.json")["restarts"]
    assert restart["why"].startswith("the check before the step found rank 1 on ")
    assert restart["why"].endswith(f"without rank 1 the step goes on with 2 of 3 {unit}")
    found = re.findall("round 2 on 2 nodes: ranks (.) to . on node (.)", (out / "log.txt").read_text())
    assert sorted(found) == ([("0", "0"), ("1", "2")] if unit == "nodes" else [])
    assert (out / "data-1.bin").read_bytes() == (out / "data.bin").read_bytes()


def test_a_bad_node_is_on_record_its_pods_make_way_and_the_next_plan_keeps_away_from_it(
    tmp_path: Path, plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plant / "sitecustomize.py").write_text(PLANT.format(rank="gpu-7", what=WRONG).replace('"RANK"', f'"{NODE_NAME}"'))
    out = tmp_path / "store" / "pretrain-0123456789ab"
    monkeypatch.setenv("ARGOSY_ADDRESS", "127.0.0.1")
    given = {**os.environ, JOIN: str(out / STATE / ADDRESS), JOIN_WAIT: "60", JOINED: str(tmp_path / "joined")}
    (tmp_path / "joined").touch()
    pods = [subprocess.Popen([sys.executable, "-m", "steps.noop"], env={**given, NODE: str(node), NODE_NAME: name})
            for node, name in enumerate(("gpu-6", "gpu-7"))]
    monkeypatch.setenv(EXTERNAL, "0")
    code, text = ended(start(out, processes=2, nodes=2))
    assert code == 1
    assert "rank 1 on gpu-7: wrong result of a matrix product" in text
    record = read_record(tmp_path / "store" / BAD / "gpu-7.json")
    assert (record["cause"], record["why"], record["run"]) == ("node", "wrong result of a matrix product", out.name)
    assert record["measured"]["product"] > 0
    assert read_record(out / ERROR)["nodes"] == ["gpu-7"]
    end_groups(out, again=True)
    assert [pod.wait(60) for pod in pods] == [1, 1]
    assert not (tmp_path / "joined").exists()  # they did not lack memory
    profiles = write_profile(tmp_path, bad_nodes={"most": 2})
    assert plan_pod(profiles, tmp_path / "outputs", "--to", "data").returncode == 0
    patch = json.loads(json.loads((tmp_path / "outputs/patches").read_text())["data"])
    assert {"affinity": patch["affinity"]} == away([NO_NODE, "gpu-7"])
