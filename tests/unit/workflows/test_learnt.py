"""Requests that follow from what earlier runs of a stage used."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.step_files import NODE, RUN
from argosy.core.tracking.tracker import Tracker
from steps.noop import NoopConfig
from workflows.graph import Node, Resources
from workflows.learnt import applied, describe_learnt, learn
from workflows.plan import Plan, plan

GB = 1e9 / 2**20  # in MiB, as the peak is measured


def asks(store: Path, **asked: Any) -> Plan:
    return plan([Node("train", "noop", NoopConfig(), resources=Resources(**asked))], store)


def ran(store: Path, number: int, *attempts: dict[str, Any], part: str = "", **run: Any) -> Path:
    """Write the directory of a run of the stage with another config, with attempts of a second each."""
    out = store / "-".join(filter(None, ("train", part, f"{number:012x}")))
    out.mkdir()
    (out / NODE).write_text(json.dumps({"node": "train", "step": "noop", "part": part}))
    history = [{"started": 10.0 * number + n, "ended": 10.0 * number + n + 1, "runs": [], **attempt}
               for n, attempt in enumerate(attempts)]
    (out / RUN).write_text(json.dumps({"history": history, **run}))
    return out


def ended(peak_gb: float, **more: Any) -> dict[str, Any]:
    return {"exit": 0, "cause": "", "peak_rss_mb": peak_gb * GB, "cores": 0.9, "nodes": 1, **more}


def out_of(memory_gb: float) -> dict[str, Any]:
    return {"exit": 137, "cause": "oom", "memory_gb": memory_gb, "nodes": 1}


@pytest.mark.parametrize(("asked", "attempts", "line"), [
    (8, [ended(2.1)], "asked 8 GB, measured peak 2.1 GB: 3 GB would do"),
    (8, [ended(6)], ""),  # not worth a change
    (2, [ended(4.8)], "asked 2 GB, measured peak 4.8 GB: 6 GB are needed"),
    (2, [{**out_of(2), "exit": 1}], ""),  # of a GPU's memory
    (2, [out_of(2)], "asked 2 GB, 2 GB were not enough: 3 GB are needed"),
    (2, [out_of(2), out_of(3)], "asked 2 GB, 3 GB were not enough: 5 GB are needed"),
    (8, [out_of(2), out_of(3), ended(2.1)], "asked 8 GB, measured peak 2.1 GB: 3 GB would do"),  # down again
    (8, [ended(0.1)], "asked 8 GB, measured peak 0.1 GB: 0.25 GB would do")])
def test_memory_follows_the_peak_up_after_its_lack_and_down_again(
        asked: float, attempts: list[dict[str, Any]], line: str, tmp_path: Path) -> None:
    ran(tmp_path, 1, *attempts)
    told = describe_learnt(learn(asks(tmp_path, memory_gb=asked)), apply=False)
    assert told.splitlines()[:1] == ([f"train: {line}"] if line else [])


def test_the_newest_run_of_each_part_counts_and_the_largest_of_these(tmp_path: Path) -> None:
    for number, part, peak in ((1, "a", 9.0), (2, "a", 1.0), (3, "b", 3.0)):
        ran(tmp_path, number, ended(peak), part=part)
    [found] = learn(asks(tmp_path, memory_gb=16))
    assert found.peak_gb == pytest.approx(3)


def test_requests_that_apply_are_those_of_the_stage_and_no_digest_has_them(tmp_path: Path) -> None:
    ran(tmp_path, 1, ended(2.1, ended=100.0))
    planned = asks(tmp_path, memory_gb=8, cores=4, processes=1)
    changed = applied(planned, learn(planned))
    assert changed.nodes[0].resources == Resources(2, 3.0, 1)  # it kept 0.9 of 4 cores busy
    assert changed.nodes[0].dir == planned.nodes[0].dir


def test_runs_of_as_many_processes_and_nodes_count_alone(tmp_path: Path) -> None:
    ran(tmp_path, 1, ended(0.7, ended=100.0), config={"processes": 1})
    ran(tmp_path, 2, ended(1.4, nodes=2, ended=100.0), config={"processes": 2})
    for (processes, nodes), enough in {(1, 1): "1 GB", (2, 2): "4 GB", (2, 1): "", (4, 4): ""}.items():
        found = learn(asks(tmp_path, memory_gb=2, cores=4, processes=processes, nodes=nodes))
        assert [f"{each.enough.memory_gb:g} GB" for each in found] == ([enough] if enough else [])
    told = describe_learnt(learn(asks(tmp_path, memory_gb=2, cores=4, processes=2, nodes=2)), apply=False)
    assert told.splitlines()[:2] == ["train: asked 2 GB for 2 nodes together, measured peak 2.8 GB: 4 GB are needed",
                                     "train: asked 4 cores for 2 nodes together, used 1.8: 3 would do"]


@pytest.mark.parametrize(("took", "began", "cores"), [(100, 10, 2), (100, 60, 4), (1000, 800, 4)])
def test_fewer_cores_do_where_training_took_most_of_the_time(took: int, began: int, cores: int, tmp_path: Path) -> None:
    ran(tmp_path, 1, ended(2.1, started=0.0, ended=float(took), runs=[{"began": float(began), "at": float(took)}]))
    [found] = learn(asks(tmp_path, memory_gb=8, cores=4))
    assert found.enough.cores == cores


def test_a_micro_batch_that_leaves_most_of_its_gpu_free_is_told(tmp_path: Path) -> None:
    out = ran(tmp_path, 1, ended(0.9), exit=0, config={"micro_batch_size": 4},
              computed_with={"device": "NVIDIA H100 80GB HBM3"})
    tracker = Tracker(out / "tracking")
    tracker.metrics({"memory/peak_mb": 17 * 1024}, step=1)
    tracker.close()
    told = describe_learnt(learn(asks(tmp_path, memory_gb=1)), apply=True)
    assert "train: micro_batch_size 4 took 18 GB of its GPU: 16 would fit\n" in told
