"""The filter of system calls, read by an interpreter of BPF of its own, and its numbers by the kernel's headers."""

import errno
import re
import struct
from pathlib import Path

import pytest

from argosy.core.sandbox import syscalls

ALLOW, KILL = 0x7FFF0000, 0x80000000
HEADERS = {"x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
           "aarch64": Path("/usr/include/asm-generic/unistd.h")}  # fmt: skip
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def decide(machine: str, number: int, *arguments: int, arch: int = 0) -> int:
    """What the kernel does with a call."""
    data = struct.pack("<IIQ6Q", number, arch or ARCH[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    lines = [*struct.iter_unpack("<HBBI", syscalls.program(machine))]
    at, loaded = 0, 0
    while True:
        operation, yes, no, constant = lines[at]
        at += 1
        if operation == 0x06:
            return int(constant)
        if operation == 0x20:
            (loaded,) = struct.unpack_from("<I", data, constant)
        elif operation == 0x54:
            loaded &= constant
        else:
            at += yes if {0x15: loaded == constant, 0x35: loaded >= constant,
                          0x45: bool(loaded & constant)}[operation] else no  # fmt: skip


def refused(number: int) -> int:
    return 0x50000 | number


@pytest.mark.parametrize(("name", "arguments", "decision"), [
    ("read", (), ALLOW), ("openat", (0, 0, 0o2000000), ALLOW), ("openat", (0, 0, 1), refused(errno.EROFS)),
    ("openat", (0, 0, 0o100), refused(errno.EROFS)), ("openat", (0, 0, 2 | 0o20200000), refused(errno.EROFS)),
    ("socket", (2, 1), refused(errno.ENETDOWN)), ("socketpair", (1, 0o2000001), ALLOW),
    ("socketpair", (1, 2), refused(errno.ENETDOWN)), ("socketpair", (2, 1), refused(errno.ENETDOWN)),
    ("sendto", (3, 1, 1, 0, 0), ALLOW), ("sendto", (3, 1, 1, 0, 1 << 40), refused(errno.ENETDOWN)),
    ("clone", (0x11,), refused(errno.EAGAIN)), ("clone3", (), refused(errno.ENOSYS)),
    ("execve", (), refused(errno.EPERM)), ("kill", (1, 9), refused(errno.EPERM)),
    ("ptrace", (), refused(errno.EPERM)),
    ("io_uring_setup", (), refused(errno.EPERM)), ("mount", (), refused(errno.EPERM)),
    ("memfd_create", (), refused(errno.EPERM)), ("prctl", (), refused(errno.EPERM)),
    ("fcntl", (1, 3), ALLOW), ("fcntl", (1, 8), refused(errno.EPERM)), ("fcntl", (1, 10), refused(errno.EPERM)),
    ("ioctl", (1, 0x5401), ALLOW), ("ioctl", (1, 0x5412), refused(errno.ENOTTY)),
    ("prlimit64", (0, 7, 0, 1), ALLOW), ("prlimit64", (99, 7, 0, 1), refused(errno.EPERM)),
    ("prlimit64", (0, 7, 1 << 40, 0), refused(errno.EPERM)), ("openat2", (), refused(errno.EPERM)),
])  # fmt: skip
@pytest.mark.parametrize("machine", ARCH)
def test_the_filter_decides(machine: str, name: str, arguments: tuple[int, ...], decision: int) -> None:
    assert decide(machine, numbers(machine)[name], *arguments) == decision


@pytest.mark.parametrize("machine", ARCH)
def test_other_machines_and_newer_calls(machine: str) -> None:
    assert decide(machine, 0, arch=0x40000003) == KILL
    assert decide(machine, 5000) == refused(errno.ENOSYS)
    assert machine != "x86_64" or decide(machine, 0x40000000) == refused(errno.ENOSYS)


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
    tables = [syscalls._ALLOWED, *syscalls._REFUSED.values(), opens]
    ours = {name: each[place] for table in tables for name, each in table.items()}
    theirs = numbers(machine)
    assert {name: number for name, number in ours.items() if theirs.get(name) != number} == {}
