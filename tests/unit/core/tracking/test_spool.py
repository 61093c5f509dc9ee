"""The spool: what was logged is there, each point once, whatever happens to the process and the disk."""

import errno
import json
import math
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from argosy.core.tracking.spool import read
from argosy.core.tracking.tracker import Tracker
from workflows.local.shipping import WORKFLOW, PipelineTracker, pipeline_of


def records(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "spool.jsonl").read_text(encoding="utf-8").splitlines()]


def test_not_finite_values_come_back_and_every_line_is_strict_json(tmp_path):
    tracker = Tracker(tmp_path)
    tracker.metrics({"a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.1 + 0.2, "e": np.float32(0.5)})
    curves = read(tmp_path)
    assert math.isnan(curves["a"][0][1])
    assert [curves[k][0][1] for k in "bcde"] == [math.inf, -math.inf, 0.1 + 0.2, 0.5]

    def refuse(word: str) -> float:
        raise AssertionError(word)

    for line in (tmp_path / "spool.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


def test_a_resumed_step_writes_only_what_is_missing(tmp_path):
    export = tmp_path / "checkpoints" / "step-4"
    for last in (7, 12):  # the second process continues from step 4 on
        tracker = Tracker(tmp_path / "tracking")
        tracker.header(node="pretrain", digest="0123456789ab")
        tracker.params({"lr": 0.1, "seed": last})
        tracker.tags({"phase": str(last), "same": "x"})
        for step in range(0 if last == 7 else 4, last):
            tracker.metrics({"loss": step + last / 100}, step)
        tracker.model("step-4", export, stage="pretrain", step=4, tokens=400)
        tracker.artifact(tmp_path / "report.txt")
        tracker.model_metrics(export, {"acc": 0.5}, tokens=400, dataset="facts")
        tracker.close()
    assert read(tmp_path)["loss"] == [(s, s + (0.07 if s < 7 else 0.12)) for s in range(12)]
    found = records(tmp_path / "tracking")
    assert [r["step"] for r in found if r["kind"] == "metrics"] == list(range(12))
    assert [r["values"] for r in found if r["kind"] == "params"] == [{"lr": "0.1", "seed": "7"}]
    assert [r["values"] for r in found if r["kind"] == "tags"] == [{"phase": "7", "same": "x"}, {"phase": "12"}]
    for kind in ("header", "model", "artifact", "model_metrics"):
        assert sum(r["kind"] == kind for r in found) == 1, kind


@pytest.mark.parametrize("tail", [b'{"kind":"metrics","time":1,"st', b"x" * 200_000, "中".encode()[:2],
                                  b"\x00\x00\xff garbage\n[1]\n{}\n"])
def test_a_torn_last_line_is_cut_and_a_damaged_one_costs_that_line(tmp_path, tail):
    tracker = Tracker(tmp_path)
    tracker.metrics({"a": 1}, 1)
    with open(tmp_path / "spool.jsonl", "ab") as file:
        file.write(tail)
    assert read(tmp_path) == {"a": [(1, 1.0)]}
    torn = not tail.endswith(b"\n")
    (Tracker(tmp_path) if torn else tracker).metrics({"a": 2}, 2)
    assert read(tmp_path) == {"a": [(1, 1.0), (2, 2.0)]}
    assert not torn or len(records(tmp_path)) == 2


def test_a_disk_that_fails_warns_once_and_gets_everything_when_it_works_again(tmp_path, monkeypatch):
    tracker = Tracker(tmp_path)
    tracker.metrics({"a": 0}, 0)
    real, calls = os.write, iter(range(1000))

    def full(file: int, data: bytes) -> int:
        if next(calls) % 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[: len(data) // 2])  # a nearly full disk takes a part

    with warnings.catch_warnings(record=True) as caught, monkeypatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(os, "write", full)
        for step in range(1, 50):
            tracker.metrics({"a": step}, step)
            assert read(tmp_path) == {"a": [(0, 0.0)]}
    assert len(caught) == 2  # one for each reason
    assert "waits in memory" in str(caught[0].message)
    tracker.metrics({"a": 50}, 50)
    assert read(tmp_path) == {"a": [(s, float(s)) for s in range(51)]}


def test_the_last_to_open_a_spool_is_its_writer(tmp_path):
    """A process that lost its lease and does not know it yet adds nothing: each step stands once, for MLflow too."""
    loser = Tracker(tmp_path)
    loser.metrics({"a": 1}, 1)
    winner = Tracker(tmp_path)
    loser.metrics({"a": 2}, 2)
    winner.metrics({"a": 20}, 2)
    loser.metrics({"a": 3}, 3)
    assert [(r["step"], r["values"]) for r in records(tmp_path)] == [(1, {"a": 1.0}), (2, {"a": 20.0})]


def test_a_metric_goes_forward_and_each_metric_for_itself(tmp_path):
    for _ in range(2):
        tracker = Tracker(tmp_path)
        for step in (10, 20, 20, 30):
            tracker.metrics({"a": step, f"only/{step}": 1}, step)
    assert read(tmp_path) == {"a": [(10, 10.0), (20, 20.0), (30, 30.0)],
                              **{f"only/{step}": [(step, 1.0)] for step in (10, 20, 30)}}
    with pytest.warns(RuntimeWarning, match="metric 'a' goes back to step 5: not logged"):
        tracker.metrics({"a": 5, "b": 5}, 5)
    assert read(tmp_path)["b"] == [(5, 5.0)]


def test_a_pipeline_run_goes_on_unless_somebody_else_runs_it(tmp_path):
    def begin(workflow: str = "") -> PipelineTracker:
        name = pipeline_of(tmp_path, "aaaabbbbcccc", workflow)
        assert name.startswith("aaaabbbbcccc-")
        run = PipelineTracker(tmp_path, name, "demo")
        run.start({WORKFLOW: workflow} if workflow else {})
        return run

    first, second = begin(), begin("wf-2")  # at one moment: each with a name, and an end, of its own
    assert first.tracker.directory != second.tracker.directory
    assert begin("wf-2").tracker.directory == second.tracker.directory  # its plan is tried again
    first.finish("KILLED")
    assert second.tracker.last_status == "RUNNING"
    assert begin().tracker.directory == first.tracker.directory
    first.finish("FAILED")
    assert len({pipeline_of(tmp_path, "aaaabbbbcccc") for _ in range(2)}) == 2  # before either of them has begun
    store = tmp_path / "other"
    assert pipeline_of(store, "aaaabbbbcccc") != pipeline_of(store, "aaaabbbbcccc")  # as on a server of two stores
