"""Training on several nodes and without anybody watching: the same bytes on two groups of processes, after a rank that
was killed, and the same samples while a node is lost."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from tests.end_to_end.model.train.test_processes import given, like_whole, metrics, start, whole  # noqa: F401
from tests.processes import until

LONG = {"pretrain": {"tokens": 60 * 256, "exports": [1.0]}, "sft": {"max_steps": 40}, "grpo": {"max_steps": 16}}
TWO = {"pretrain": {"processes": 2, "micro_batch_size": 1}, "sft": {"processes": 2}, "grpo": {"processes": 2,
                                                                                              "micro_batch_size": 16}}


def ranks(out: Path, world: int) -> list[int]:
    """The newest process of each rank."""
    logs = [out / f"log-rank{rank}.txt" for rank in range(world)]
    return [int(re.findall(r"rank \d+ of \d+, process (\d+)", log.read_text())[-1]) for log in logs]


def states(out: Path) -> Callable[[], bool]:
    return lambda: any((out / "state").glob("step-*/complete"))


@pytest.mark.parametrize("name", ["pretrain", "sft", "grpo"])
def test_two_nodes_are_one_also_where_a_rank_starts_again_in_place(given: Path, tmp_path: Path,  # noqa: F811
                                                                   name: str) -> None:
    fields: dict[str, Any] = {**TWO[name], **LONG[name]}
    process = start(given, name, tmp_path, **fields, nodes=2)
    until(states(tmp_path))
    os.kill(ranks(tmp_path, 2)[1], signal.SIGKILL)
    process.end()
    one = like_whole(tmp_path, given, name, **fields)
    run = read_record(tmp_path / "run.json")
    assert run["attempts"] == 1
    peaks = [read_record(out / "run.json")["peak_rss_mb"] for out in (tmp_path, one)]
    assert 0.5 < peaks[0] / peaks[1] < 0.85  # of the larger node: an agent and a rank, in place of one and both
    assert [(each["rank"], each["cause"]) for each in run["restarts"]] == [(1, "killed")]
    assert "round 2 on 2 nodes: ranks 1 to 1 on node 1" in (tmp_path / "log.txt").read_text()
    assert not (tmp_path / "state").exists()


FOUR = {"processes": 4, "global_batch_size": 12, "micro_batch_size": 1, "tokens": 100 * 384, "exports": [1.0],
        "save_every": 10, "log_every": 1, "learning_rate": 1e-4}


def check_learnt_the_same(out: Path, given: Path) -> None:  # noqa: F811
    """Each step once, and the losses are those of an undisturbed run."""
    expected = metrics(whole(given, "pretrain", **FOUR))
    assert metrics(out).keys() == expected.keys()
    losses = {key: value for key, value in metrics(out).items() if "loss" in key[0] or "bpb" in key[0]}
    assert len(losses) > 100
    assert losses == pytest.approx({key: expected[key] for key in losses}, rel=1e-3)


def test_a_lost_node_is_done_without_until_it_is_back(given: Path, tmp_path: Path,  # noqa: F811
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("WAIT", "0.5"), ("TIMEOUT", "4")):
        monkeypatch.setenv(f"ARGOSY_NODE_{name}", seconds)
    process = start(given, "pretrain", tmp_path, **FOUR, nodes=4, min_nodes=3)
    until(states(tmp_path), 120)
    lost = ranks(tmp_path, 4)[2]
    os.kill(int(Path(f"/proc/{lost}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    process.end()
    log = (tmp_path / "log.txt").read_text()
    assert [max(map(int, re.findall(rf"round {number} on (\d) nodes", log))) for number in (1, 2, 3)] == [4, 3, 4]
    assert [each["cause"] for each in read_record(tmp_path / "run.json")["restarts"]][-1] == "membership"
    check_learnt_the_same(tmp_path, given)


def test_a_place_that_loses_its_process_twice_is_done_without_until_later(given: Path, tmp_path: Path,  # noqa: F811
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("GPU_WAIT", "1"), ("GRACE_SECONDS", "2")):
        monkeypatch.setenv(f"ARGOSY_{name}", seconds)
    process = start(given, "pretrain", tmp_path, **FOUR, min_processes=3)
    until(states(tmp_path), 120)
    first = ranks(tmp_path, 4)[2]
    os.kill(first, signal.SIGKILL)
    until(lambda: ranks(tmp_path, 4)[2] != first)
    os.kill(ranks(tmp_path, 4)[2], signal.SIGKILL)
    process.end()
    worlds = re.findall(r"rank 0 of (\d)", (tmp_path / "log-rank0.txt").read_text())
    assert worlds == ["4", "4", "3", "4"]
    restarts = read_record(tmp_path / "run.json")["restarts"]
    assert [(each["cause"], each.get("left")) for each in restarts] == [
        ("killed", None), ("killed", 3), ("membership", None)]
    check_learnt_the_same(tmp_path, given)
