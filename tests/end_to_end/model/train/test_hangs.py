"""Ranks that hang, in real collectives: the one that others wait for is named with its stack, all start again, and the
run ends in the bytes of one that was left alone."""

import re
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from tests.end_to_end.model.train.test_processes import given, like_whole, start  # noqa: F401

LONG: dict[str, Any] = {"tokens": 60 * 256, "exports": [1.0], "micro_batch_size": 1}
STEP = "argosy.model.train.engines.torch:TorchEngine"


@pytest.mark.parametrize(("fields", "fault", "named", "words"), [
    ({"processes": 4}, (f"{STEP}._sum_gradients", 1, 9, "asleep"), 1,
     r"rank 1: in asleep \(\S*tests/faults.*other ranks: waiting in all_reduce \(torch/\S+ of sum_gradients"),
    ({"processes": 2, "engine": "ddp"}, (f"{STEP}._backward", 0, 19, "busy"), 0,
     r"rank 0: in busy \(\S*tests/faults.*other ranks: waiting in "),
    ({"processes": 2, "engine": "fsdp"}, (f"{STEP}._backward", 1, 19, "asleep"), 1,
     r"rank 1: in asleep \(\S*tests/faults.*other ranks: waiting in "),
    ({"processes": 3, "global_batch_size": 6}, (f"{STEP}._sum_gradients", 2, 9, "elsewhere"), 2,
     r"rank 2: waiting in barrier \(torch/distributed/\S+ of elsewhere"),
], ids=["asleep", "busy-ddp", "fsdp", "mismatch"])
def test_the_rank_that_does_not_arrive_is_named(given: Path, tmp_path: Path, fields: dict[str, Any],  # noqa: F811
                                                fault: tuple[Any, ...], named: int, words: str,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_HANG_SECONDS", "4")
    start(given, "pretrain", tmp_path, fault=fault, **LONG, **fields).end()
    restart, = read_record(tmp_path / "run.json")["restarts"]
    assert (restart["rank"], restart["cause"]) == (named, "hang")
    assert re.search(words, restart["why"])
    like_whole(tmp_path, given, "pretrain", **LONG, **fields)


def test_a_hang_between_training_steps_is_named_too(given: Path, tmp_path: Path,  # noqa: F811
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_RANK_TIMEOUT", "10")
    fields: dict[str, Any] = {"processes": 3, "global_batch_size": 6, "heldout_points": 4}
    fault = ("argosy.model.train.state:StateStore._save", 1, 2, "asleep")
    start(given, "pretrain", tmp_path, fault=fault, **LONG, **fields).end()
    restart, = read_record(tmp_path / "run.json")["restarts"]
    assert (restart["rank"], restart["cause"]) == (1, "hang")
    assert re.match(r"(saving|held-out loss|the end of a step) has taken \d+ s, and the slowest of the last \d+ "
                    r"\d\.\d s: rank 1: in asleep ", restart["why"])
    like_whole(tmp_path, given, "pretrain", **LONG, **fields)


def test_a_rank_that_is_stopped_between_training_steps_is_named_in_time(given: Path, tmp_path: Path,  # noqa: F811
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before it counts as frozen, by default after 300 s."""
    monkeypatch.setenv("ARGOSY_HANG_SECONDS", "4")
    fault = ("argosy.model.train.heldout:HeldoutLoss.by_channel", 1, 1, "stopped")
    start(given, "pretrain", tmp_path, fault=fault, **LONG, processes=2).end()
    restart, = read_record(tmp_path / "run.json")["restarts"]
    assert (restart["rank"], restart["cause"]) == (1, "hang")
    assert "rank 1 has been stopped for 4 s: rank 1: stopped (SIGSTOP, or a debugger); other ranks: " in restart["why"]
    assert len(restart["stacks"]["0"]) > 3
    assert "most recent call first" in (tmp_path / "log-rank0.txt").read_text()
