"""Ranks with a planted fault, in real collectives: the one that others wait for is named with its stack, the one whose
weights or products are wrong, and the slow one; each run ends in the bytes of one that was left alone."""

import re
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from argosy.core.tracking.spool import read
from tests.end_to_end.model.train.test_processes import given, like_whole, start, whole  # noqa: F401
from tests.training_fixtures import digests

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


FEW: dict[str, Any] = {"tokens": 40 * 192, "exports": [1.0], "micro_batch_size": 1, "global_batch_size": 6}
CHECK, LOSSES = (f"argosy.model.train.corruption:Copies.{name}" for name in ("check", "_losses"))
ZERO = {"name": "zero", "stage": 1}
PAIRS = {"processes": 4, "engine": {"name": "fsdp", "shard_size": 2}, "global_batch_size": 8}


@pytest.mark.parametrize(("fields", "fault", "ranks", "words"), [
    ({"processes": 3, "engine": "ddp"}, (CHECK, 1, 4, "flip"), [1], "rank 1 has other weights than "),
    ({"processes": 3, "engine": ZERO}, (CHECK, 2, 4, "flip"), [2], "rank 2 has other weights than "),
    (PAIRS, (CHECK, 1, 4, "flip"), [1, 3], "rank 1 or 3 has other weights than processes with the same part"),
    ({"processes": 2}, (LOSSES, 0, 3, "wrong"), [0], "rank 0 has other losses of the same samples when it "),
    ({"processes": 3}, (LOSSES, 2, 2, "broken"), [2], "rank 2 has other losses of the same samples: "),
], ids=["ddp", "zero", "fsdp-pairs", "wrong-once", "wrong-always"])
def test_the_rank_that_is_corrupt_is_named_and_the_run_is_as_if_it_were_not(
    given: Path, tmp_path: Path, fields: dict[str, Any], fault: tuple[Any, ...], ranks: list[int],  # noqa: F811
    words: str,
) -> None:
    config = {**FEW, "check_every": 7, **fields}
    start(given, "pretrain", tmp_path, fault=fault, **config).end()
    restart, = read_record(tmp_path / "run.json")["restarts"]
    assert (restart["cause"], restart["ranks"]) == ("silent corruption", ranks)
    assert restart["rank"] == (ranks[0] if len(ranks) == 1 else None)
    assert words in restart["why"]
    expected = like_whole(tmp_path, given, "pretrain", **config)
    assert not read_record(expected / "run.json").get("restarts")


def test_shards_of_which_there_is_one_are_said_to_have_no_copies(given: Path, tmp_path: Path) -> None:  # noqa: F811
    start(given, "pretrain", tmp_path, **FEW, processes=2, engine="fsdp", check_every=10).end()
    assert (tmp_path / "log-rank0.txt").read_text().count("no process holds weights that another one has") == 1


MANY: dict[str, Any] = {"tokens": 100 * 256, "exports": [1.0], "micro_batch_size": 1, "save_every": 50}
LOSS = "argosy.model.train.layers.loss:LossModule"


@pytest.mark.parametrize(("fields", "place"), [
    ({"processes": 4}, "forward"),
    ({"processes": 2, "engine": "fsdp"}, "score"),  # where no weights are gathered
], ids=["torch", "fsdp"])
def test_a_slow_rank_is_named_once_and_changes_no_byte(given: Path, tmp_path: Path,  # noqa: F811
                                                       fields: dict[str, Any], place: str) -> None:
    start(given, "pretrain", tmp_path, fault=(f"{LOSS}.{place}", 1, -1, "short"), **MANY, **fields).end()
    [found] = read_record(tmp_path / "watch.json")["stragglers"]
    assert found["rank"] == 1
    assert found["slower"] > 0.2
    assert found["said"].startswith("straggler: rank 1 on node 0 (")
    assert (tmp_path / "log-rank0.txt").read_text().count("straggler: rank 1") == 1
    points = read(tmp_path)
    assert points["perf/straggler_rank"][-1][1] == 1
    assert points["perf/straggler"][-1][1] > 1.2
    clean = whole(given, "pretrain", **MANY, **fields)
    assert not (clean / "watch.json").exists()
    assert digests(tmp_path) == digests(clean)
