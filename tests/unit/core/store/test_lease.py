"""One writer at a time; a dead one is replaced at once, a silent one after a while, and learns of it."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from argosy.core.store.files import remove_temporaries
from argosy.core.store.lease import LEASE, Lease, LeaseLost
from tests.trees import read_files, write_files

HOLD = """
import sys, time
from pathlib import Path
from argosy.core.store.lease import Lease
assert Lease(Path(sys.argv[1])).try_acquire() is None
print("held", flush=True)
time.sleep(60)
"""

def age(directory: Path, seconds: float) -> None:
    state = (directory / LEASE).stat()
    os.utime(directory / LEASE, (state.st_atime - seconds, state.st_mtime - seconds))


def elsewhere(directory: Path) -> None:
    """As if the holder were on another machine, where nobody here can tell whether it lives."""
    record = json.loads((directory / LEASE).read_text())
    (directory / LEASE).write_text(json.dumps(record | {"machine": "another", "host": "other", "token": "theirs"}))


def test_a_killed_holder_is_replaced_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert Lease(tmp_path).try_acquire() is not None
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, though its parent has not reaped it
        mine = Lease(tmp_path)
        assert mine.try_acquire() is None
        mine.release()


def test_a_holder_that_lost_its_lease_may_not_write(tmp_path: Path) -> None:
    lost = Lease(tmp_path)
    lost.try_acquire()
    age(tmp_path, 31)
    taker = Lease(tmp_path)
    assert taker.try_acquire() is None
    with pytest.raises(LeaseLost), lost.held():
        raise AssertionError("held by another")
    lost.release()  # must not remove the taker's
    with taker.held():
        pass
    taker.release()


def test_the_heartbeat_notices_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_LEASE_SECONDS", "0.3")
    noticed = threading.Event()
    lease = Lease(tmp_path, on_lost=noticed.set)
    lease.try_acquire()
    elsewhere(tmp_path)
    assert noticed.wait(20)


def test_a_holder_elsewhere_is_replaced_only_when_silent_and_of_many_takers_one_wins(tmp_path: Path) -> None:
    Lease(tmp_path).try_acquire()
    elsewhere(tmp_path)
    takers = [Lease(tmp_path) for _ in range(16)]
    assert takers[0].try_acquire() is not None
    age(tmp_path, 31)
    gate = threading.Barrier(len(takers))
    won: list[Lease] = []

    def take(lease: Lease) -> None:
        gate.wait()
        if lease.try_acquire() is None:
            won.append(lease)

    threads = [threading.Thread(target=take, args=(lease,)) for lease in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    won[0].release()


def test_the_holder_removes_what_dead_writers_left_at_any_depth(tmp_path: Path) -> None:
    write_files(tmp_path, {
        "checkpoints/.final.7-abc.tmp/model.safetensors": "half", "checkpoints/p050/config.json": "whole",
        "train/.web.bin.7-abc.tmp": "half", "train/web.bin": "whole"})
    remove_temporaries(tmp_path)
    assert read_files(tmp_path).keys() == {"checkpoints/p050/config.json", "train/web.bin"}
    assert not (tmp_path / "checkpoints/.final.7-abc.tmp").exists()
