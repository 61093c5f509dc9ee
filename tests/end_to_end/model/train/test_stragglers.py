"""Ranks that are slower than the others: one with a planted pause is named once, and none in a clean run."""

from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_record
from argosy.core.tracking.spool import read
from tests.end_to_end.model.train.test_processes import given, start, whole  # noqa: F401
from tests.training_fixtures import digests

LONG: dict[str, Any] = {"tokens": 100 * 256, "exports": [1.0], "micro_batch_size": 1, "save_every": 50}
LOSS = "argosy.model.train.layers.loss:LossModule"


@pytest.mark.parametrize(("fields", "place"), [
    ({"processes": 4}, "forward"),
    ({"processes": 2, "engine": "fsdp"}, "score"),  # where no weights are gathered
], ids=["torch", "fsdp"])
def test_a_slow_rank_is_named_once_and_changes_no_byte(given: Path, tmp_path: Path,  # noqa: F811
                                                       fields: dict[str, Any], place: str) -> None:
    start(given, "pretrain", tmp_path, fault=(f"{LOSS}.{place}", 1, -1, "short"), **LONG, **fields).end()
    [found] = read_record(tmp_path / "watch.json")["stragglers"]
    assert found["rank"] == 1
    assert found["slower"] > 0.2
    assert found["said"].startswith("straggler: rank 1 on node 0 (")
    assert (tmp_path / "log-rank0.txt").read_text().count("straggler: rank 1") == 1
    points = read(tmp_path)
    assert points["perf/straggler_rank"][-1][1] == 1
    assert points["perf/straggler"][-1][1] > 1.2
    clean = whole(given, "pretrain", **LONG, **fields)
    assert not (clean / "watch.json").exists()
    assert digests(tmp_path) == digests(clean)
