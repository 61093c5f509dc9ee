"""The check of nodes over six processes, one of which is planted to be bad."""

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.core.step.machine import free_port

WORLD = 6
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch.distributed", "argosy.core.nodes.command"])
SPACE, HOST, INSIDE, DEAD = "argosy-test", "10.213.77.1", "10.213.77.2", "10.213.78.2"


def _process(rank: int, out: Path, port: int, plant: str, host: str) -> None:
    import torch

    from argosy.core.nodes import hardware
    from argosy.core.nodes.command import check_nodes, configure

    torch.set_num_threads(1)
    hardware.STORAGE = 1 << 20
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORLD), "MASTER_ADDR": host, "MASTER_PORT": str(port),
                   "GLOO_SOCKET_IFNAME": "dead-a" if plant == "cut off" else "lo"}  # fmt: skip
    if plant == "wrong":
        right = torch.Tensor.__matmul__

        def wrong(a: Any, b: Any) -> Any:
            c = right(a, b)
            if c.dtype == torch.float32:
                c[17, 5] += 1
            return c

        torch.Tensor.__matmul__ = wrong  # type: ignore[method-assign,assignment]
    if plant == "cut off":
        with open(f"/run/netns/{SPACE}", "rb") as space:
            assert ctypes.CDLL(None).setns(space.fileno(), 0) == 0
    configure(parser := argparse.ArgumentParser())
    sys.exit(check_nodes(parser.parse_args(["--storage", str(out), "--patience", "6",
                                            "--json", str(out / f"{rank}.json")])))


def _throttle(process: Any) -> None:
    """Let a process run a fiftieth of the time."""
    while process.is_alive():
        for number, seconds in ((signal.SIGSTOP, 0.245), (signal.SIGCONT, 0.005)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
            time.sleep(seconds)


def _bad(out: Path, rank: int, plant: str, host: str = "127.0.0.1") -> dict[str, str]:
    """Plant trouble in one process and return the verdict, which is the same on all of them."""
    port = free_port()
    each = [SERVER.Process(target=_process, args=(n, out, port, plant if n == rank else "", host))
            for n in range(WORLD)]  # fmt: skip
    for process in each:
        process.start()
    if plant == "slow":
        threading.Thread(target=_throttle, args=(each[rank],)).start()
    for process in each:
        process.join(240)
    records = [json.loads((out / f"{n}.json").read_text()) for n in range(WORLD)]
    assert all(record == records[0] for record in records)
    assert {process.exitcode for process in each} == {int(bool(records[0]["bad"]))}
    assert records[0]["rounds"] <= 3
    assert not records[0]["suspects"]
    return dict(records[0]["bad"])


@pytest.mark.parametrize(("plant", "rank", "why"), [
    ("wrong", 2, "wrong result of a matrix product"), ("slow", 4, "its matrix product took ")])
def test_the_bad_one_is_told_and_no_other(tmp_path: Path, plant: str, rank: int, why: str) -> None:
    found = _bad(tmp_path, rank, plant)
    assert list(found) == [str(rank)]
    assert found[str(rank)].startswith(why)


@pytest.fixture
def space() -> Iterator[None]:
    """A network namespace that reaches process 0, and whose card for exchanges nobody else reaches."""
    try:
        subprocess.run(["ip", "netns", "add", SPACE], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace can be made here: {error}")
    try:
        for words in (f"link add argosy-a type veth peer name argosy-b netns {SPACE}",
                      f"addr add {HOST}/24 dev argosy-a", "link set argosy-a up",
                      f"-n {SPACE} addr add {INSIDE}/24 dev argosy-b", f"-n {SPACE} link set argosy-b up",
                      f"-n {SPACE} link add dead-a type veth peer name dead-b",
                      f"-n {SPACE} addr add {DEAD}/24 dev dead-a", f"-n {SPACE} link set dead-a up",
                      f"-n {SPACE} link set dead-b up"):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=False)


def test_one_that_no_other_reaches_is_told(tmp_path: Path, space: None) -> None:
    found = _bad(tmp_path, 1, "cut off", HOST)
    assert list(found) == ["1"]
    assert found["1"].startswith("no exchange with ")


def test_one_that_does_not_arrive_is_told(tmp_path: Path) -> None:
    from argosy.core.nodes.check import Place, check

    found = check(Place(0, 2, port=free_port()), wait=1.0)
    assert found.bad == {1: "did not arrive within 1 s"}
