"""The shipper without MLflow: each record arrives once, whatever crashes, and nothing waits for a bad server."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from argosy.tracking import Tracker
from argosy.tracking.batches import BATCH_VALUES, Batch, Owner, Shipped, next_batch, owner_of, spools
from argosy.tracking.follow import follow, process_ended
from argosy.tracking.shipper import Shipper, Unavailable


class Crash(BaseException):
    """The shipper's process dies here."""


class FakeServer:
    """Keeps every point it is sent, twice if it is sent twice; fails as told."""

    uri = "fake://user:secret@host"

    def __init__(self) -> None:
        self.points: list[tuple] = []
        self.others: list[tuple] = []
        self.runs: set[str] = set()
        self.batches: list[int] = []
        self.ended: list[tuple[str, str]] = []
        self.trouble = lambda: None  # called before a batch is kept, and after

    def open(self, owner: Owner) -> bool:
        known = owner.digest in self.runs
        self.runs.add(owner.digest)
        return known

    def end(self, owner: Owner, status: str) -> None:
        self.ended.append((owner.digest, status))

    def send(self, spool: Path, owner: Owner, batch: Batch, *, doubtful: bool) -> str:
        self.trouble()
        there = set(self.points) if doubtful else set()
        values = [(r["step"], key, value) for r in batch.of("metrics") for key, value in r["values"].items()]
        points = [(owner.digest, key, step, value) for step, key, value in values]
        self.batches.append(len(points))
        for point in points:
            if point not in there:
                self.points.append(point)
                if random.random() < 0.01:
                    self.trouble()
        self.others += [(r["kind"], owner.digest) for r in batch.records if r["kind"] in ("model", "model_metrics")]
        self.trouble()
        return "run-" + owner.digest


def node(store: Path, digest: str, steps: range = range(0), keys: int = 3) -> tuple[Tracker, list[tuple]]:
    tracker = Tracker(store / f"train-{digest}" / "tracking")
    tracker.header(node="train", digest=digest, pipeline="p", line="l")
    for step in steps:
        tracker.metrics({f"k{i}": step * 0.5 + i for i in range(keys)}, step)
    return tracker, [(digest, f"k{i}", step, step * 0.5 + i) for step in steps for i in range(keys)]


def test_everything_arrives_once_and_in_batches_of_at_most_a_thousand(tmp_path):
    expected = node(tmp_path, "aaaaaaaaaaaa", range(1500))[1] + node(tmp_path, "bbbbbbbbbbbb", range(3), 2500)[1]
    server = FakeServer()
    shipper = Shipper(lambda: spools(tmp_path), server)
    while not shipper.sweep():
        pass
    assert sorted(server.points) == sorted(expected)
    whole_records = [size for size in server.batches if size != 2500]  # a larger record is split by the sender
    assert max(whole_records) <= BATCH_VALUES
    more = node(tmp_path, "aaaaaaaaaaaa", range(1490, 1510))[1]
    assert shipper.sweep()
    assert sorted(server.points) == sorted({*expected, *more})
    assert Shipper(lambda: spools(tmp_path), server).sweep()  # a new process finds nothing to do
    assert len(server.points) == len({*expected, *more})


@pytest.mark.parametrize("seed", range(8))
def test_crashes_and_timeouts_at_random_moments_neither_lose_nor_double(tmp_path, seed):
    random.seed(seed)
    server = FakeServer()
    expected: list[tuple] = []

    def trouble() -> None:
        if random.random() < 0.2:
            raise random.choice([Crash, Unavailable("timed out")])

    server.trouble = trouble
    save = Shipped.save

    def crashing_save(self: Shipped) -> None:
        trouble()
        save(self)
        trouble()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shipped, "save", crashing_save)
        shipper = Shipper(lambda: spools(tmp_path), server)
        for turn in range(30):
            expected += node(tmp_path, "aaaaaaaaaaaa", range(turn * 40, turn * 40 + 40), 10)[1]
            try:
                shipper.sweep()
            except Unavailable:
                continue
            except Crash:
                shipper = Shipper(lambda: spools(tmp_path), server)
    server.trouble = lambda: None
    while not shipper.sweep():
        pass
    assert sorted(server.points) == sorted(expected)


@pytest.mark.parametrize("content", [None, "", "{", "[]"])
def test_a_lost_offset_file_does_not_send_twice(tmp_path, content):
    expected = node(tmp_path, "aaaaaaaaaaaa", range(700))[1]
    server = FakeServer()
    assert Shipper(lambda: spools(tmp_path), server).sweep()
    shipped = tmp_path / "train-aaaaaaaaaaaa" / "tracking" / "shipped.json"
    shipped.unlink()
    if content is not None:
        shipped.write_text(content)
    assert Shipper(lambda: spools(tmp_path), server).sweep()
    assert sorted(server.points) == sorted(expected)


def test_another_server_gets_everything_and_the_file_holds_no_password(tmp_path):
    expected = node(tmp_path, "aaaaaaaaaaaa", range(5))[1]
    first, second = FakeServer(), FakeServer()
    second.uri = "fake://other"
    for server in (first, second, first):
        Shipper(lambda: spools(tmp_path), server).sweep()
    assert sorted(first.points) == sorted(second.points) == sorted(expected)
    assert "secret" not in (tmp_path / "train-aaaaaaaaaaaa" / "tracking" / "shipped.json").read_text()


def test_a_step_that_was_removed_and_runs_again_is_sent_again(tmp_path):
    server = FakeServer()
    node(tmp_path, "aaaaaaaaaaaa", range(50))
    Shipper(lambda: spools(tmp_path), server).sweep()
    (tmp_path / "train-aaaaaaaaaaaa" / "tracking" / "spool.jsonl").unlink()
    expected = node(tmp_path, "aaaaaaaaaaaa", range(3), 4)[1]
    Shipper(lambda: spools(tmp_path), server).sweep()
    assert {*expected} <= {*server.points}
    assert len(server.points) == len({*server.points})


def test_models_go_before_the_results_that_are_about_them(tmp_path):
    evaluate = node(tmp_path, "000000000000")[0]  # its spool comes first
    evaluate.model_metrics(tmp_path / "train-ffffffffffff/checkpoints/final", {"acc": 0.5}, tokens=7)
    node(tmp_path, "ffffffffffff")[0].model("final", tmp_path / "train-ffffffffffff/checkpoints/final",
                                            stage="train", step=1, tokens=7)
    server = FakeServer()
    assert Shipper(lambda: sorted(spools(tmp_path)), server).sweep()
    assert server.others == [("model", "ffffffffffff"), ("model_metrics", "000000000000")]


def test_a_spool_that_another_shipper_is_at_is_left_to_it(tmp_path):
    node(tmp_path, "aaaaaaaaaaaa", range(5))
    first, second = FakeServer(), FakeServer()
    first.trouble = lambda: Shipper(lambda: spools(tmp_path), second).sweep()
    assert Shipper(lambda: spools(tmp_path), first).sweep()
    assert len(first.points) == 15
    assert second.points == []


def test_a_server_that_is_down_is_asked_less_and_less_and_everything_goes_later(tmp_path, monkeypatch):
    expected = node(tmp_path, "aaaaaaaaaaaa", range(30))[1]
    server = FakeServer()
    clock, asked, heard = [0.0], [], []

    def down() -> None:
        asked.append(clock[0])
        if clock[0] < 500:
            raise Unavailable("connection refused")

    server.trouble = down
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    shipper = Shipper(lambda: spools(tmp_path), server)
    assert follow(shipper, lambda: clock[0] > 600, heard.append)
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked) if earlier < 500]
    assert pauses[:4] == [1, 2, 4, 8]
    assert max(pauses) == 60
    assert heard == ["connection refused"]  # once
    assert sorted(server.points) == sorted(expected)


def test_at_the_end_a_server_that_is_down_is_asked_once_more_and_not_waited_for(tmp_path):
    node(tmp_path, "aaaaaaaaaaaa", range(3))
    server = FakeServer()
    calls = []

    def down() -> None:
        calls.append(1)
        raise Unavailable("hangs")

    server.trouble = down
    assert not follow(Shipper(lambda: spools(tmp_path), server), lambda: True, lambda reason: None)
    assert len(calls) == 1


def test_runs_of_processes_that_are_gone_are_killed_and_those_of_living_ones_are_not(tmp_path):
    code = "import sys, pathlib\nfrom argosy.tracking import Tracker\nt = Tracker(pathlib.Path(sys.argv[1]))\n" \
           "t.header(node='n', digest=sys.argv[2])\nt.status('RUNNING')\nsys.argv[3:] and t.status(sys.argv[3])\n"
    for digest, *end in (["aaaaaaaaaaaa"], ["bbbbbbbbbbbb", "FINISHED"]):
        directory = tmp_path / f"n-{digest}" / "tracking"
        subprocess.run([sys.executable, "-c", code, directory, digest, *end], check=True, cwd=Path(__file__).parents[2])
    node(tmp_path, "cccccccccccc")[0].status("RUNNING")  # this process
    server = FakeServer()
    assert follow(Shipper(lambda: spools(tmp_path), server), lambda: True, print)
    assert server.ended == [("aaaaaaaaaaaa", "KILLED")]
    assert follow(Shipper(lambda: spools(tmp_path), server), lambda: True, print)
    assert len(server.ended) == 1


def test_process_ended_knows_a_child_that_is_over():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = process_ended(child.pid)
    assert not ended()
    child.communicate(b"\n")
    assert ended()
    assert process_ended(child.pid)()
    assert not process_ended(os.getpid())()


def test_a_spool_without_a_header_is_named_by_its_directory(tmp_path):
    tracker = Tracker(tmp_path / "by hand" / "tracking")
    tracker.metrics({"a": 1})
    owner = owner_of(tmp_path / "by hand" / "tracking" / "spool.jsonl")
    assert (owner.node, owner.digest, owner.pipeline, owner.line) == ("by hand", "by hand", "", "argosy")


def test_a_batch_ends_where_it_is_told_and_counts_damaged_lines(tmp_path):
    tracker = Tracker(tmp_path)
    tracker.metrics({"a": 1}, 1)
    middle = (tmp_path / "spool.jsonl").stat().st_size
    with open(tmp_path / "spool.jsonl", "ab") as file:
        file.write(b"garbage\n")
    tracker.metrics({"a": 2}, 2)
    first = next_batch(tmp_path / "spool.jsonl", 0, middle)
    assert (len(first.records), first.damaged, first.end) == (1, 0, middle)
    rest = next_batch(tmp_path / "spool.jsonl", middle)
    assert (len(rest.records), rest.damaged) == (1, 1)
    assert next_batch(tmp_path / "spool.jsonl", rest.end) is None


def test_of_an_evaluation_that_is_tried_again_what_has_changed_is_sent(tmp_path):
    server, sent = FakeServer(), []

    def send(spool: Path, owner: Owner, batch: Batch, *, doubtful: bool) -> str:
        sent.extend(record["values"] for record in batch.of("model_metrics"))
        return "run"

    server.send = send
    shipper = Shipper(lambda: spools(tmp_path), server)
    export = tmp_path / "train-aaaaaaaaaaaa/checkpoints/final"
    writer, _ = node(tmp_path, "aaaaaaaaaaaa")
    for found in ({"a": 0.5, "b": 1.0}, {"a": 0.25, "b": 1.0, "c": 2.0}, {"a": 0.5, "b": 1.0, "c": 2.0}):
        writer.model_metrics(export, found, tokens=10)
        assert shipper.sweep()
    assert sent == [{"a": 0.5, "b": 1.0}, {"a": 0.25, "c": 2.0}, {"a": 0.5}]


@pytest.mark.parametrize("restart", [False, True])
def test_two_writers_of_one_spool_send_each_point_once(tmp_path, restart):
    """A process that lost its lease goes on writing for a moment, beside the one that took over."""
    server = FakeServer()
    shipper = Shipper(lambda: spools(tmp_path), server)
    loser, expected = node(tmp_path, "aaaaaaaaaaaa", range(5), 1)
    taker, _ = node(tmp_path, "aaaaaaaaaaaa")
    for step in range(5, 9):
        for writer, value in ((loser, step * 0.5), (taker, step * 0.5 + 100)):
            writer.metrics({"k0": value}, step)
            assert shipper.sweep()
            if restart:
                shipper = Shipper(lambda: spools(tmp_path), server)
    for writer in (loser, taker):  # in one batch, too
        writer.metrics({"k0": 1.0, "k1": 1.0}, 9)
        writer.model_metrics(tmp_path / "train-aaaaaaaaaaaa/checkpoints/final", {"bench/acc": 0.5}, tokens=10)
    assert shipper.sweep()
    expected += [("aaaaaaaaaaaa", "k0", step, step * 0.5) for step in range(5, 9)]
    assert sorted(server.points) == sorted([*expected, *(("aaaaaaaaaaaa", key, 9, 1.0) for key in ("k0", "k1"))])
    assert server.others == [("model_metrics", "aaaaaaaaaaaa")]
