"""Who takes part in a round, how often ranks start again, and what is said when they do not."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.core.config.schema import ParallelConfig
from argosy.core.errors import StepError
from argosy.core.nodes.bad import bad_nodes, clear_bad
from argosy.core.step.contract import Step
from argosy.core.step.ranks import rounds
from argosy.core.step.ranks.diagnosis import GroupEnd, RankFailed
from argosy.core.step.ranks.group import Place, environment
from argosy.core.store.files import write_json

KILLED = GroupEnd(exits={1: (-9, 1.0)})
DONE = GroupEnd(ends={0: {"exit_code": 0, "outputs": {"made": 1}}})


class EvenConfig(ParallelConfig):
    """A layout that three processes do not fit."""

    def check_fields(self) -> None:
        if 8 % self.processes:
            raise ValueError(f"processes={self.processes} does not divide 8")


class Gpus:
    """GPUs of one node, of which 4 is a server's, and rounds of ranks on them: what is done after each, which GPUs
    answer no more, and how it ends (None: by being saved). `shown` has the GPUs that ranks see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
        self.lost, self.shown, self.said, self.out, self.total = "", list[str](), list[str](), out, 10.0
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
        monkeypatch.setattr(rounds, "answering_gpus", lambda gpus: ["" if gpu in self.lost else gpu for gpu in gpus])
        monkeypatch.setattr(rounds, "run_group", self._run_group)

    def run(self, config: ParallelConfig, *ends: tuple[float, str, GroupEnd | None]) -> Any:
        self._ends = iter(ends)
        step = Step("none", type(config), lambda config, context: config)
        return rounds.run_ranks(step, config, self.out, "", lambda why, about: self.said.append(why))["outputs"]

    def _run_group(self, step: str, place: Place, task: dict[str, Any], asked: Callable[[], str]) -> GroupEnd:
        done, self.lost, end = next(self._ends)
        with environment(self.out, place, 1):
            self.shown.append(os.environ["CUDA_VISIBLE_DEVICES"])
        assert task["config"]["processes"] == place.local
        write_json(self.out / "progress.json", {"done": done, "total": self.total})
        assert (asked() == "save") == (end is None)
        if end is None:  # the last step was under way
            write_json(self.out / "progress.json", {"done": self.total, "total": self.total})
        return end or GroupEnd(exits={0: (143, 1.0)})


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpus:
    (tmp_path / "pretrain-0").mkdir()
    return Gpus(monkeypatch, tmp_path / "pretrain-0")


def test_a_gpu_that_does_not_answer_is_done_without_as_the_layout_allows(gpus: Gpus,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three places two fit; that the third is there too is no reason to start again."""
    monkeypatch.setenv("ARGOSY_GPU_WAIT", "1e-9")
    config = EvenConfig(processes=4, min_processes=2)
    assert gpus.run(config, (1, "2", KILLED), (2, "2", KILLED), (3, "-", None), (4, "-", DONE)) == {"made": 1}
    assert gpus.shown == ["0,1,2,3,4", "0,1,4", "0,1,4", "0,1,2,3,4"]
    assert [each["why"] for each in bad_nodes(gpus.out.parent)] == ["its GPU does not answer"]
    assert ["without rank 2 the step goes on with 2 of 4" in text for text in gpus.said] == [True, False, False]


def test_a_place_is_left_out_when_its_process_is_lost_twice_or_by_its_gpu(gpus: Gpus) -> None:
    """And where it is by its GPU, the node is on record."""
    failed = GroupEnd(ends={2: {"exit_code": 1, "time": 1, "kind": "Error", "message": "uncorrectable ECC error"}})
    with pytest.raises(RankFailed, match=r"ECC.*; 2 of 4 processes are left, and min_processes is 3"):
        gpus.run(ParallelConfig(processes=4, min_processes=3), (1, "-", KILLED), (1, "-", KILLED), (1, "-", failed))
    assert gpus.shown == ["0,1,2,3,4", "0,1,2,3,4", "0,2,3,4"]
    record, = bad_nodes(gpus.out.parent)
    assert [record[name] for name in ("cause", "rank", "run")] == ["ECC", 2, "pretrain-0"]
    clear_bad(str(gpus.out.parent), record["node"])
    assert bad_nodes(gpus.out.parent) == []


def test_restarts_count_only_where_nothing_was_done_between(gpus: Gpus) -> None:
    config = ParallelConfig(processes=2, restarts=2)
    assert gpus.run(config, *((done, "-", KILLED) for done in (1, 2, 3, 4, 4, 5)), (6, "-", DONE)) == {"made": 1}
    gpus.shown.clear()
    with pytest.raises(RankFailed, match="given up after 2 restarts without progress between") as failed:
        gpus.run(config, *((done, "-", KILLED) for done in (1, 2, 2, 2, 2)))
    assert len(gpus.shown) == 4
    assert failed.value.about["rank"] == 1


def test_a_want_of_memory_is_not_tried_again(gpus: Gpus) -> None:
    with pytest.raises(StepError, match="out of memory") as failed:
        gpus.run(ParallelConfig(processes=2), (1, "-", GroupEnd(exits={1: (-9, 1.0)}, starved={1: True})))
    assert failed.value.exit_code == 137


def test_ranks_that_are_done_make_no_way_and_need_no_clean_end(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_GPU_WAIT", "1e-9")
    killed = GroupEnd(ends=DONE.ends, exits={0: (-9, 1.0)})
    config = ParallelConfig(processes=2, min_processes=1)
    assert gpus.run(config, (1, "1", KILLED), (10, "-", killed)) == {"made": 1}
    assert gpus.shown == ["0,1,2,3,4", "0,2,3,4"]
