"""The sandbox for code: what hostile answers try ends as no test passed, with the reason, and nothing escapes."""

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from argosy.core.errors import StepError
from argosy.core.sandbox import syscalls
from argosy.core.sandbox.run import Job, Limits, Outcome, Sandbox
from tests.processes import run_python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox is of Linux")
MB = 128


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


HOSTILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


WALLS = ["", *["bubblewrap"] * bool(shutil.which("bwrap"))]
SLOW = ("an endless loop", "a loop that catches all")  # their time passes once


@pytest.fixture(scope="module")
def others() -> set[int]:
    """Processes that earlier tests have left, such as the one that renders chat templates."""
    return {each.pid for each in psutil.Process().children(recursive=True)}


@pytest.fixture(scope="module")
def outcomes(place: Path, server: socket.socket, others: set[int]) -> dict[str, tuple[Outcome, str]]:
    """All of them in processes without a second wall, as in most pods, and the quick ones with each."""
    (place / "secret").write_text("told")
    said = {"file": str(place / "file"), "secret": str(place / "secret"), "port": server.getsockname()[1],
            "parent": os.getpid(), "memory": MB}  # fmt: skip
    found = {}
    for wall in WALLS:
        sandbox = Sandbox(Limits(seconds=1, memory_mb=MB), bubblewrap=bool(wall))
        assert (sandbox.held_by == "bubblewrap") is (wall == "bubblewrap")
        names = [name for name in HOSTILE if not (wall and name in SLOW)]
        jobs = [Job(HOSTILE[name][0].format(**said), ["assert abs(-1) == 2"]) for name in names]
        for name, outcome in zip(names, sandbox.run(jobs), strict=True):
            found[f"{name}, {wall}"] = outcome, HOSTILE[name][1].format(**said)
    return found


@pytest.mark.parametrize("name", [f"{name}, {wall}" for wall in WALLS for name in HOSTILE
                                  if not (wall and name in SLOW)])
def test_what_is_hostile_passes_no_test_and_says_why(outcomes: dict[str, tuple[Outcome, str]], name: str) -> None:
    outcome, reason = outcomes[name]
    assert outcome.passed == (False,)
    unseen = name.endswith("bubblewrap") and "Error: [Errno 2] No such file" in outcome.reason  # not even its name
    assert outcome.reason == reason or unseen or (reason == "" and "Error: [Errno" in outcome.reason)


def test_nothing_escapes(outcomes: dict[str, tuple[Outcome, str]], place: Path, server: socket.socket,
                         others: set[int]) -> None:
    assert outcomes
    assert sorted(path.name for path in place.iterdir()) == ["secret"]
    with pytest.raises(BlockingIOError):  # no connection waits
        server.accept()
    assert [each for each in psutil.Process().children(recursive=True) if each.pid not in others] == []


GOOD = """
import asyncio, collections, dataclasses, decimal, re, sqlite3
@dataclasses.dataclass
class Point:
    x: int
async def later():
    await asyncio.sleep(0.001)
    return Point(3)
print("much" * 10**6)
def f(x):
    return x + 1
"""


def test_code_that_only_computes_is_judged_by_each_test() -> None:
    tests = ["assert f(1) == 2", "assert asyncio.run(later()).x == 3", "while True: pass", "assert f(2) == 3"]
    jobs = [Job(GOOD, tests), Job(GOOD, ["assert f(1) == 3, 'no'", tests[0]]), Job(GOOD, tests[:2]),
            Job("'\ud800'", ["1"])]  # fmt: skip
    found = Sandbox(Limits(seconds=1, memory_mb=MB)).run(jobs)
    assert found[:3] == [
        Outcome((True, True, False, False), "test 3: killed: more than 1 s of CPU time"),
        Outcome((False, True), "test 1: AssertionError: no"), Outcome((True, True), "all 2 tests passed")]  # fmt: skip
    assert found[3].reason.startswith("UnicodeEncodeError")


def test_an_answer_that_waits_is_not_waited_for() -> None:
    sandbox = Sandbox(Limits(memory_mb=MB))
    sandbox.limits = Limits(wall_seconds=1, memory_mb=MB)
    (outcome,) = sandbox.run([Job("import time", ["time.sleep(1000)"])])
    assert outcome == Outcome((False,), "test 1: killed: more than 1 s")


@pytest.mark.parametrize(("function", "gives", "says"), [
    ("platform.machine", "riscv64", "no sandbox for code on linux riscv64: it needs Linux on x86_64 or aarch64"),
    ("argosy.core.sandbox.run._interpreter", "/bin/true",
     "ended 3 times before they ran any: the process ended by itself; give the")])
def test_a_machine_where_no_process_can_begin_is_an_error_and_no_wrong_answer(
    function: str, gives: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, lambda: gives)
    with pytest.raises(StepError, match=says):
        Sandbox()


# A kernel, or a container, without some calls: filters of system calls that answer as such a one does.
WITHOUT = """
import ctypes, struct, sys
from argosy.core.errors import StepError
from argosy.core.sandbox.run import Job, Limits, Sandbox
libc = ctypes.CDLL(None)
for given in sys.argv[1:]:
    number, argument, error = map(int, given.split(":"))
    lines = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16),
             (0x15, 0, 1, argument) if argument else (0x35, 0, 1, 0), (6, 0, 0, 0x50000 | error), (6, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
    assert not libc.prctl(38, 1, 0, 0, 0)
    assert not libc.prctl(22, 2, (ctypes.c_uint64 * 2)(len(lines), ctypes.addressof(code)), 0, 0)
try:
    sandbox = Sandbox(Limits(1, 30, 128), bubblewrap=False)
    print(*sandbox.run([Job("import sqlite3", ["assert sqlite3.connect(':memory:')"])]))
except StepError as error:
    print(error)
"""
LANDLOCK, SECCOMP = "444:0:38", "157:22:22"  # number of the call, its argument, the error
WORKS = "Outcome(passed=(True,), reason='all 1 tests passed')"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its numbers of system calls are those of x86_64")
@pytest.mark.parametrize(("without", "said"), [
    ([], WORKS),
    ([LANDLOCK], "the kernel gives no Landlock (Function not implemented) and no bubblewrap, and code is not run "
                 "without: the sandbox needs Linux with seccomp filters"),
    ([SECCOMP], "the kernel gives no seccomp filters (Invalid argument), and code is not run without")])  # fmt: skip
def test_code_is_not_run_where_a_promise_cannot_be_kept(without: list[str], said: str) -> None:
    done = run_python("-c", WITHOUT, *without)
    assert done.stdout.startswith(said), done.stderr


HEADERS = {"x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
           "aarch64": Path("/usr/include/asm-generic/unistd.h")}  # fmt: skip
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def numbers(machine: str) -> dict[str, int]:
    """By name, as the kernel's headers have them."""
    if not HEADERS[machine].is_file():
        pytest.skip(f"no headers of the kernel ({HEADERS[machine]})")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    named = {name: int(number) for name, number in found}
    return named | ({"newfstatat": named["fstatat"]} if "fstatat" in named else {})


@pytest.mark.parametrize("machine", ARCH)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    place, _ = syscalls.MACHINES[machine]
    opens = {name: each for name, (each, _) in syscalls._OPEN.items()}
    tables = [syscalls._CALLS["allowed"], *syscalls._CALLS["refused"].values(), opens]
    ours = {name: each[place] for table in tables for name, each in table.items()}
    theirs = numbers(machine)
    assert {name: number for name, number in ours.items() if theirs.get(name) != number} == {}
