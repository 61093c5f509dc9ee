"""The shipper without MLflow: each record arrives, whatever crashes, and nothing waits for a bad server."""

import itertools
import time
from pathlib import Path

import pytest

from argosy.core.tracking.__main__ import follow
from argosy.core.tracking.ship import BATCH_VALUES, Batch, Refused, Shipper, Unavailable
from argosy.core.tracking.spool import Owner, spools
from argosy.core.tracking.tracker import Tracker
from tests.processes import run_python


class FakeServer:
    """Keeps points by the key of MLflow's SQL stores, so one that is sent twice stands once; fails on demand."""

    uri = "fake://user:secret@host"

    def __init__(self) -> None:
        self.stored: dict[tuple, None] = {}
        self.batches: list[int] = []
        self.statuses: dict[str, str] = {}
        self.trouble = lambda: None  # called before a batch is kept

    @property
    def points(self) -> list[tuple]:
        """In order; twice where the times differ."""
        return sorted(key[:4] for key in self.stored)

    def send(self, spool: Path, owner: Owner, batch: Batch) -> str:
        self.trouble()
        points = [(owner.digest, key, record["step"], value, record["time"])
                  for record in batch.of("metrics") for key, value in record["values"].items()]
        self.batches.append(len(points))
        for point in points:
            self.stored[point] = None
        for record in batch.of("status"):
            self.statuses[owner.digest] = record["value"]
        return "run-" + owner.digest


def node(store: Path, digest: str, steps: range = range(0), keys: int = 3) -> tuple[Tracker, list[tuple]]:
    tracker = Tracker(store / f"train-{digest}" / "tracking")
    tracker.header(node="train", digest=digest, pipeline="p", line="l")
    for step in steps:
        tracker.metrics({f"k{i}": step * 0.5 + i for i in range(keys)}, step)
    return tracker, [(digest, f"k{i}", step, step * 0.5 + i) for step in steps for i in range(keys)]


def test_everything_arrives_in_batches_of_at_most_a_thousand(tmp_path):
    expected = node(tmp_path, "aaaaaaaaaaaa", range(1500))[1] + node(tmp_path, "bbbbbbbbbbbb", range(3), 2500)[1]
    server = FakeServer()
    shipper = Shipper(lambda: spools(tmp_path), server)
    while not shipper.sweep():
        pass
    assert server.points == sorted(expected)
    whole_records = [size for size in server.batches if size != 2500]  # a larger record is split by the sender
    assert max(whole_records) <= BATCH_VALUES
    more = node(tmp_path, "aaaaaaaaaaaa", range(1490, 1510))[1]
    assert shipper.sweep()
    assert server.points == sorted({*expected, *more})
    sent = len(server.batches)
    assert Shipper(lambda: spools(tmp_path), server).sweep()  # a new process finds nothing to do
    assert len(server.batches) == sent


def test_another_server_gets_everything_and_the_file_holds_no_password(tmp_path):
    expected = node(tmp_path, "aaaaaaaaaaaa", range(5))[1]
    first, second = FakeServer(), FakeServer()
    second.uri = "fake://other"
    for server in (first, second, first):
        Shipper(lambda: spools(tmp_path), server).sweep()
    assert first.points == second.points == sorted(expected)
    assert "secret" not in (tmp_path / "train-aaaaaaaaaaaa" / "tracking" / "shipped.json").read_text()


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
    assert follow(Shipper(lambda: spools(tmp_path), server), lambda: clock[0] > 600, heard.append)
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked) if earlier < 500]
    assert (pauses[:4], max(pauses)) == ([1, 2, 4, 8], 60)
    assert heard == ["connection refused"]  # once
    assert server.points == sorted(expected)


@pytest.mark.parametrize("error", [Refused("experiment 'l' is deleted"), PermissionError(13, "Permission denied")])
def test_a_spool_that_is_refused_does_not_hold_up_those_behind_it(tmp_path, error):
    node(tmp_path, "aaaaaaaaaaaa", range(3))
    expected = node(tmp_path, "bbbbbbbbbbbb", range(3))[1]

    class Refusing(FakeServer):
        def send(self, spool: Path, owner: Owner, batch: Batch) -> str:
            if owner.digest == "aaaaaaaaaaaa":
                raise error
            return super().send(spool, owner, batch)

    server, heard = Refusing(), []
    shipper = Shipper(lambda: sorted(spools(tmp_path)), server)
    assert not follow(shipper, lambda: True, heard.append)  # something is left
    assert server.points == sorted(expected)
    assert len(heard) == 1
    assert error.args[-1] in heard[0]


def gone(store, digest, *end):
    """The spool of a process that has ended, after a last status where one is given."""
    code = ("import sys, pathlib\nfrom argosy.core.tracking.tracker import Tracker\n"
            "t = Tracker(pathlib.Path(sys.argv[1]))\n"
            "t.header(node='n', digest=sys.argv[2])\nt.status('RUNNING')\nsys.argv[3:] and t.status(sys.argv[3])\n")
    assert run_python("-c", code, store / f"n-{digest}/tracking", digest, *end).returncode == 0


def test_runs_of_processes_that_are_gone_are_killed_and_those_of_living_ones_are_not(tmp_path):
    gone(tmp_path, "aaaaaaaaaaaa")
    gone(tmp_path, "bbbbbbbbbbbb", "FINISHED")
    node(tmp_path, "cccccccccccc")[0].status("RUNNING")  # this process
    server = FakeServer()
    for _ in range(2):
        assert follow(Shipper(lambda: spools(tmp_path), server), lambda: True, print)
        assert server.statuses == {"aaaaaaaaaaaa": "KILLED", "bbbbbbbbbbbb": "FINISHED", "cccccccccccc": "RUNNING"}
    assert (tmp_path / "n-aaaaaaaaaaaa/tracking/spool.jsonl").read_text().count("KILLED") == 1
