"""Who takes part in a round, how often ranks start again, and what is said when they do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import StepError
from argosy.core.step.contract import Step
from argosy.core.step.ranks.diagnosis import GroupEnd, RankFailed
from argosy.core.step.ranks.rounds import _Rounds
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


def rounds(config: ParallelConfig, groups: Groups, tmp_path: Path) -> tuple[_Rounds, list[str]]:
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
    groups = Groups([1] * 7, [KILLED] * 6 + [DONE], [1, 2, 3, 4, 4, 5, 6], tmp_path)
    assert rounds(config, groups, tmp_path)[0].run()["exit_code"] == 0
    groups = Groups([1] * 5, [KILLED] * 5, [1, 2, 2, 2, 2], tmp_path)
    with pytest.raises(RankFailed, match="given up after 2 restarts without progress between") as failed:
        rounds(config, groups, tmp_path)[0].run()
    assert len(groups.asked) == 4
    assert failed.value.about["rank"] == 1


def test_a_want_of_memory_is_not_tried_again(tmp_path: Path) -> None:
    starved = GroupEnd(exits={1: (-9, 1.0)}, starved={1: True})
    groups = Groups([1], [starved], [1], tmp_path)
    with pytest.raises(StepError, match="out of memory") as failed:
        rounds(ParallelConfig(processes=2), groups, tmp_path)[0].run()
    assert failed.value.exit_code == 137
