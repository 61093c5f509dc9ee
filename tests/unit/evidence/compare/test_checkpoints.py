"""What evaluations left behind is read with care: nothing broken stops a report, and nothing is dropped in silence."""

import math
from pathlib import Path

import pytest

from argosy.core.store.files import read_json, write_json
from argosy.evidence.compare.checkpoints import Checkpoint, read_checkpoints
from argosy.evidence.results.items import read_items, write_items
from tests.report_fixtures import HONEST, Store, make_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path, HONEST[:3], items=10)


def _benchmarks(store: Store) -> list[Path]:
    return [Path(path) for path in store.evaluations if "benchmark" in path]


def test_exports_of_a_stage_follow_each_other(store: Store) -> None:
    every = read_checkpoints(store.checkpoints, store.evaluations).every
    assert [c.label for c in every] == ["pretrain/p025", "pretrain/p050", "pretrain"]
    assert [c.final for c in every] == [False, False, True]
    assert [c.parent for c in every] == [None, every[0].key, every[1].key]


BROKEN = {"task": "facts", "variant": "plain", "id": "x", "correct": True, "chosen": 7, "gold": 0, "scores": [0.0, 1.0]}


def test_broken_rows_are_counted_and_left_out(store: Store) -> None:
    directory = _benchmarks(store)[0]
    write_items(directory, [*read_items(directory), BROKEN])
    found = read_checkpoints(store.checkpoints, store.evaluations)
    assert found.notes == [f"{directory.name}: 1 rows of its items are broken and left out."]
    assert len(found.every[0].answers["facts", "plain"].rows) == 20


def test_absent_items_and_metrics_are_named(store: Store) -> None:
    first, second, third = _benchmarks(store)
    (first / "items.parquet").unlink()
    done = read_json(second / "outputs.json")
    done["outputs"] |= {"metrics": {}, "stderr": {}, "counts": {}}
    write_json(second / "outputs.json", done)
    items = next(Path(path) for path in store.evaluations if "heldout" in path) / "items.parquet"
    items.write_bytes(items.read_bytes()[:-50])
    (third / "outputs.json").unlink()
    notes = " ".join(read_checkpoints(store.checkpoints, store.evaluations).notes)
    assert f"{first.name} is not compared item by item: it has no items.parquet" in notes
    assert f"{second.name} holds no metric" in notes
    assert f"{items.parent.name} is not compared item by item: items.parquet is broken" in notes
    assert f"{third.name} is not done" in notes


def test_a_model_from_elsewhere_is_compared_too(store: Store) -> None:
    found = read_checkpoints([], store.evaluations)
    assert len(found.evaluated) == 3
    assert [c.label for c in found.evaluated] == ["pretrain/p025", "pretrain/p050", "pretrain"]
    assert found.notes == []


def _one(value: float, stderr: float, n: int, name: str = "bench/t/plain/acc") -> Checkpoint:
    return Checkpoint("k", "d", "s", "n", 0, 0, metrics={name: value}, stderr={name: stderr}, counts={name: n})


def test_an_unknown_error_has_no_interval() -> None:
    assert _one(0.5, math.nan, 10).interval("bench/t/plain/acc") is None
    assert _one(0.5, 0.1, 10).interval("heldout/bpb/en") is None
    assert _one(1.5, 0.1, 10, "heldout/bpb/en").interval("heldout/bpb/en") == pytest.approx((1.304, 1.696), abs=1e-3)
