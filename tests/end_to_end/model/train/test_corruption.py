"""Silent corruption of a rank: a weight that loses a bit, a product that is wrong. It is found, the rank is named, and
the run ends in the bytes of one without it."""

from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from tests.end_to_end.model.train.test_processes import given, like_whole, start  # noqa: F401

LONG: dict[str, Any] = {"tokens": 40 * 192, "exports": [1.0], "micro_batch_size": 1, "global_batch_size": 6}
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
    config = {**LONG, "check_every": 7, **fields}
    start(given, "pretrain", tmp_path, fault=fault, **config).end()
    restart, = read_record(tmp_path / "run.json")["restarts"]
    assert (restart["cause"], restart["ranks"]) == ("silent corruption", ranks)
    assert restart["rank"] == (ranks[0] if len(ranks) == 1 else None)
    assert words in restart["why"]
    expected = like_whole(tmp_path, given, "pretrain", **config)
    assert not read_record(expected / "run.json").get("restarts")


def test_shards_of_which_there_is_one_are_said_to_have_no_copies(given: Path, tmp_path: Path) -> None:  # noqa: F811
    start(given, "pretrain", tmp_path, **LONG, processes=2, engine="fsdp", check_every=10).end()
    assert (tmp_path / "log-rank0.txt").read_text().count("no process holds weights that another one has") == 1
