"""Restrictions of the sandbox: the filter of system calls, and promises with tests that try them from within.

The filter is a program of classic BPF that lets through what an interpreter needs to compute and to import, and answers
everything else with an error number. What the tables (syscalls.yaml) lack is refused, a later kernel's calls too."""

import errno
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Numbers = Sequence[int | None]  # on x86_64 and aarch64; None: the machine has no such call
_CALLS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
_OPEN: Mapping[str, tuple[Numbers, int]] = {"open": ((2, None), 1), "openat": ((257, 56), 2)}  # and the flags' place
_NOT_READ_ONLY = 0o3 | 0o100 | 0o1000 | 0o2000  # O_ACCMODE, O_CREAT, O_TRUNC, O_APPEND
_FCNTL = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: none that sends signals
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_NEWER = 440  # calls from here on are unknown to some C libraries, which try others where there is none

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # place in Numbers, AUDIT_ARCH
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
Instruction = tuple[int, int, int, int]  # operation, jump where true, jump where false, constant


def program(machine: str) -> bytes:
    """Return the filter for a machine ("x86_64" or "aarch64"), as the kernel reads it: 8 bytes an instruction. Raises
    KeyError: the machine is another."""
    place, arch = MACHINES[machine]
    lines: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":  # numbers of x32, which are others for the same calls
        lines += [(_AT_LEAST, 0, 1, 0x40000000), _answer(errno.ENOSYS)]
    for numbers in _CALLS["allowed"].values():
        lines += _of(numbers[place], [(_RETURN, 0, 0, _ALLOW)])
    for error, calls in _CALLS["refused"].items():
        for numbers in calls.values():
            lines += _of(numbers[place], [_answer(getattr(errno, error))])
    for numbers, flags in _OPEN.values():
        lines += _of(numbers[place], [_argument(2 * flags), (_ANY_BIT, 0, 1, _NOT_READ_ONLY), _answer(errno.EROFS),
                                      (_RETURN, 0, 0, _ALLOW)])
    lines += _of((72, 25)[place], _one_of(1, _FCNTL, errno.EPERM))
    lines += _of((16, 29)[place], _one_of(1, _IOCTL, errno.ENOTTY))
    lines += _of((302, 261)[place], _zero((0, 4, 5), errno.EPERM))  # prlimit64: own limits, to read them
    lines += _of((44, 206)[place], _zero((8, 9), errno.ENETDOWN))  # sendto: to the other end of a pair alone
    lines += _of((53, 199)[place], _pair())
    lines += [(_AT_LEAST, 0, 1, _NEWER), _answer(errno.ENOSYS), _answer(errno.EPERM)]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


def _answer(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)


def _of(number: int | None, then: list[Instruction]) -> list[Instruction]:
    """Return lines that run `then`, which returns, for one call; the number stays loaded for others."""
    return [] if number is None else [(_EQUAL, 0, len(then), number), *then]


def _argument(word: int) -> Instruction:
    """Load half an argument: argument n is the words 2n (its lower bits) and 2n + 1."""
    return (_LOAD, 0, 0, 16 + 4 * word)


def _one_of(argument: int, values: Sequence[int], otherwise: int) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(2 * argument), *tests, _answer(otherwise), (_RETURN, 0, 0, _ALLOW)]


def _zero(words: Sequence[int], otherwise: int) -> list[Instruction]:
    lines: list[Instruction] = []
    for word in words:
        lines += [_argument(word), (_EQUAL, 1, 0, 0), _answer(otherwise)]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def _pair() -> list[Instruction]:
    """Allow a pair of connected streams, as event loops wake themselves with."""
    wrong = _answer(errno.ENETDOWN)
    return [_argument(0), (_EQUAL, 1, 0, 1), wrong, _argument(2), (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, 1), wrong,
            (_RETURN, 0, 0, _ALLOW)]  # fmt: skip


_ATTEMPT = """
import os, socket
try:
    {what}
except {error}:
    pass
else:
    raise AssertionError({then!r})
"""
_TRIES = {  # what must fail, with which error, and what it would mean that it does not
    "no network": ("socket.socket(socket.AF_INET)", "OSError", "a socket was made"),
    "no sockets of this machine": ("socket.socket(socket.AF_UNIX)", "OSError", "a socket was made"),
    "no processes": ("os.fork() or os._exit(0)", "OSError", "a process was started"),
    "no writing of files": ('open({folder!r} + "/written", "w")', "OSError", "a file was written"),
    "no reading of files": ("open({secret!r})", "OSError", "a file was read"),
    "no look into other processes": ('open("/proc/{parent}/environ")', "OSError", "another's environment was read"),
    "no signals to others": ("os.kill({parent}, 0)", "OSError", "a signal was sent"),
    "a limit of memory": ("bytearray({memory} * 2**20)", "MemoryError", "memory was had")}
PROMISES = {name: _ATTEMPT.format(what=what, error=error, then=then) for name, (what, error, then) in _TRIES.items()}
PROMISES["an empty environment"] = "import os; assert not os.environ"
