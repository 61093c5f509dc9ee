"""The check of nodes over six processes, one of which is planted to be bad."""

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from argosy.core.step.machine import free_port

WORLD = 6
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch.distributed", "argosy.core.nodes.command"])
PATIENCE_S = 6


def _process(rank: int, out: Path, port: int, plant: str) -> None:
    import torch

    from argosy.core.nodes import check, hardware
    from argosy.core.nodes.command import check_nodes, configure

    torch.set_num_threads(1)
    hardware.STORAGE = 1 << 20
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    if plant == "wrong":
        right = torch.Tensor.__matmul__

        def wrong(a: Any, b: Any) -> Any:
            c = right(a, b)
            if c.dtype == torch.float32:
                c[17, 5] += 1
            return c

        torch.Tensor.__matmul__ = wrong  # type: ignore[method-assign,assignment]

    def silent(*_: Any) -> float:
        time.sleep(PATIENCE_S)
        raise TimeoutError

    if plant == "cut off":
        check.exchange = silent
    configure(parser := argparse.ArgumentParser())
    sys.exit(check_nodes(parser.parse_args(["--storage", str(out), "--patience", str(PATIENCE_S),
                                            "--json", str(out / f"{rank}.json")])))


def _bad(out: Path, rank: int, plant: str) -> dict[str, str]:
    """Plant trouble in one process and return the verdict, which is the same on all of them."""
    port = free_port()
    each = [SERVER.Process(target=_process, args=(n, out, port, plant if n == rank else ""))
            for n in range(WORLD)]
    for process in each:
        process.start()
    for process in each:
        process.join(240)
    records = [json.loads((out / f"{n}.json").read_text()) for n in range(WORLD)]
    assert all(record == records[0] for record in records)
    assert {process.exitcode for process in each} == {int(bool(records[0]["bad"]))}
    assert records[0]["rounds"] <= 3
    assert not records[0]["suspects"]
    return dict(records[0]["bad"])


@pytest.mark.parametrize(("plant", "rank", "why"), [
    ("wrong", 2, "wrong result of a matrix product"), ("cut off", 1, "no exchange with ")])
def test_the_bad_one_is_told_and_no_other(tmp_path: Path, plant: str, rank: int, why: str) -> None:
    found = _bad(tmp_path, rank, plant)
    assert list(found) == [str(rank)]
    assert found[str(rank)].startswith(why)


def test_one_that_does_not_arrive_is_told(tmp_path: Path) -> None:
    from argosy.core.nodes.check import Place, check

    found = check(Place(0, 2, port=free_port()), wait=1.0)
    assert found.bad == {1: "did not arrive within 1 s"}
