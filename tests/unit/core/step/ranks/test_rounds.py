"""Who takes part in a round, how often ranks start again, and what is said when they do not."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import StepError
from argosy.core.step.contract import Step
from argosy.core.step.ranks import rounds as module
from argosy.core.step.ranks.diagnosis import GroupEnd, RankFailed
from argosy.core.step.ranks.group import Place, environment
from argosy.core.step.ranks.rounds import Alone, _Rounds
from argosy.core.store.files import write_json

KILLED = GroupEnd(exits={1: (-9, 1.0)})
DONE = GroupEnd(ends={0: {"exit_code": 0, "outputs": {"made": 1}}})


class EvenConfig(ParallelConfig):
    """A layout that three processes do not fit."""

    def check_fields(self) -> None:
        if 8 % self.processes:
            raise ValueError(f"processes={self.processes} does not divide 8")


class Groups:
    """Nodes that are there in each round, and how each round ends; `asked` has what the rounds were."""

    def __init__(self, there: list[int], ends: list[GroupEnd], done: list[float], out: Path) -> None:
        self.there, self.ends, self.done, self.out = there, ends, done, out
        self.asked: list[tuple[int, int]] = []
        self.grows: list[bool] = []

    def gather(self, least: int) -> int:
        return self.there[len(self.asked)]

    def run(self, task: dict[str, Any], nodes: int, grows: Callable[[int], bool]) -> tuple[GroupEnd, bool]:
        number = len(self.asked)
        self.asked.append((nodes, task["config"]["processes"]))
        self.grows.append(grows(self.there[number]))
        write_json(self.out / "progress.json", {"done": self.done[number]})
        return self.ends[number], False

    def close(self) -> None:
        return


def rounds(config: ParallelConfig, groups: Groups | Alone, tmp_path: Path) -> tuple[_Rounds, list[str]]:
    said: list[str] = []
    step = Step("none", type(config), lambda config, context: config)
    return _Rounds(step, config, tmp_path, "", groups, lambda why, about: said.append(why)), said  # type: ignore[arg-type]


def test_fewer_nodes_take_part_only_as_the_layout_allows(tmp_path: Path) -> None:
    """Of three nodes two fit; that the third is there too is no reason to start again."""
    config = EvenConfig(processes=4, nodes=4, min_nodes=2)
    groups = Groups([4, 3, 4], [KILLED, KILLED, DONE], [10, 20, 30], tmp_path)
    made, said = rounds(config, groups, tmp_path)
    assert made.run()["outputs"] == {"made": 1}
    assert groups.asked == [(4, 4), (2, 2), (4, 4)]
    assert groups.grows == [False, False, False]
    assert len(said) == 2


def test_restarts_count_only_where_nothing_was_done_between(tmp_path: Path) -> None:
    config = ParallelConfig(processes=2, restarts=2)
    groups = Groups([2] * 7, [KILLED] * 6 + [DONE], [1, 2, 3, 4, 4, 5, 6], tmp_path)
    assert rounds(config, groups, tmp_path)[0].run()["exit_code"] == 0
    groups = Groups([2] * 5, [KILLED] * 5, [1, 2, 2, 2, 2], tmp_path)
    with pytest.raises(RankFailed, match="given up after 2 restarts without progress between") as failed:
        rounds(config, groups, tmp_path)[0].run()
    assert len(groups.asked) == 4
    assert failed.value.about["rank"] == 1


def test_a_want_of_memory_is_not_tried_again(tmp_path: Path) -> None:
    starved = GroupEnd(exits={1: (-9, 1.0)}, starved={1: True})
    groups = Groups([2], [starved], [1], tmp_path)
    with pytest.raises(StepError, match="out of memory") as failed:
        rounds(ParallelConfig(processes=2), groups, tmp_path)[0].run()
    assert failed.value.exit_code == 137


class Gpus:
    """GPUs of one node, of which 4 is a server's: what a round has done, which of them answer no more, and how it ends
    (None: by being saved). `shown` has those that the ranks of each round see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, out: Path, *rounds: tuple[float, str, GroupEnd | None]) -> None:
        self.lost, self.shown, self._out, self._rounds = "", list[str](), out, iter(rounds)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
        monkeypatch.setattr(module, "answering_gpus", lambda gpus: ["" if gpu in self.lost else gpu for gpu in gpus])
        monkeypatch.setattr(module, "run_group", self.run)

    def run(self, step: str, place: Place, task: dict[str, Any], asked: Callable[[], str]) -> GroupEnd:
        done, self.lost, end = next(self._rounds)
        with environment(self._out, place, 1):
            self.shown.append(os.environ["CUDA_VISIBLE_DEVICES"])
        assert task["config"]["processes"] == place.local
        write_json(self._out / "progress.json", {"done": done})
        assert (asked() == "save") == (end is None)
        return end or GroupEnd(exits={0: (143, 1.0)})


def test_a_gpu_that_does_not_answer_costs_its_process_until_it_does(tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_GPU_WAIT", "1e-9")
    gpus = Gpus(monkeypatch, tmp_path, (1, "2", KILLED), (2, "2", KILLED), (3, "x", None), (4, "x", DONE))
    config = ParallelConfig(processes=4, min_processes=3)
    made, said = rounds(config, Alone("none", 4, 3), tmp_path)
    assert made.run()["exit_code"] == 0
    assert gpus.shown == ["0,1,2,3,4", "0,1,3,4", "0,1,3,4", "0,1,2,3,4"]
    assert ["without rank 2 the step goes on with 3 of 4 processes" in text for text in said] == [True, False, False]


def test_a_place_is_left_out_when_its_process_is_lost_twice_or_by_its_gpu(tmp_path: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    failed = GroupEnd(ends={2: {"exit_code": 1, "time": 1, "kind": "Error", "message": "uncorrectable ECC error"}})
    gpus = Gpus(monkeypatch, tmp_path, (1, "x", KILLED), (1, "x", KILLED), (1, "x", failed))
    made, said = rounds(ParallelConfig(processes=4, min_processes=3), Alone("none", 4, 3), tmp_path)
    with pytest.raises(RankFailed, match=r"ECC.*; 2 of 4 processes are left, and min_processes is 3"):
        made.run()
    assert gpus.shown == ["0,1,2,3,4", "0,1,2,3,4", "0,2,3,4"]
    assert len(said) == 2
