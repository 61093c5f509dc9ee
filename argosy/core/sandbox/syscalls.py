"""Restrictions of the sandbox: the filter of system calls, and promises with tests that try them from within.

The filter is a program of classic BPF that lets through what an interpreter needs to compute and to import, and
answers everything else with an error number. What is not in these tables is refused: a later kernel's calls as well."""

import errno
import struct
from collections.abc import Mapping, Sequence

# Numbers on (x86_64, aarch64); None: the machine has no such call.
Numbers = tuple[int | None, int | None]
_ALLOWED: Mapping[str, Numbers] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "munmap": (11, 215), "brk": (12, 214), "newfstatat": (262, 79), "getdents64": (217, 61), "futex": (202, 98),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "mprotect": (10, 226),
    "madvise": (28, 233), "mremap": (25, 216), "mincore": (27, 232), "readv": (19, 65), "writev": (20, 66),
    "pread64": (17, 67), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "stat": (4, None),
    "lstat": (6, None), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50), "fadvise64": (221, 223),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    "recvfrom": (45, 207), "getsockopt": (55, 209), "shutdown": (48, 210), "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114), "time": (201, None),
    "gettimeofday": (96, 169), "times": (100, 153), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getgroups": (115, 158),
    "getpgid": (121, 155), "getpgrp": (111, None), "getsid": (124, 156), "getresuid": (118, 148),
    "getresgid": (120, 150), "getpriority": (140, 141), "getrlimit": (97, 163), "getrusage": (98, 165),
    "sysinfo": (99, 179), "uname": (63, 160), "umask": (95, 166), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293),
    "membarrier": (324, 283), "arch_prctl": (158, None), "getrandom": (318, 278), "exit": (60, 93),
    "exit_group": (231, 94), "restart_syscall": (219, 128), "setitimer": (38, 103), "getitimer": (36, 102),
    "alarm": (37, None), "pause": (34, None), "sigaltstack": (131, 132), "rt_sigtimedwait": (128, 137),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "wait4": (61, 260), "waitid": (247, 95),
}  # fmt: skip
# The errors that say most: "Network is down", "Resource temporarily unavailable", "Read-only file system".
_REFUSED: Mapping[int, Mapping[str, Numbers]] = {
    errno.ENETDOWN: {"socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
                     "accept": (43, 202), "accept4": (288, 242), "sendmsg": (46, 211), "sendmmsg": (307, 269)},
    errno.EAGAIN: {"clone": (56, 220), "fork": (57, None), "vfork": (58, None)},
    errno.ENOSYS: {"clone3": (435, 435)},  # for which the C library then tries clone
    errno.EROFS: {"creat": (85, None), "unlink": (87, None), "unlinkat": (263, 35), "mkdir": (83, None),
                  "mkdirat": (258, 34), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
                  "rmdir": (84, None), "link": (86, None), "linkat": (265, 37), "symlink": (88, None),
                  "symlinkat": (266, 36), "truncate": (76, 45), "ftruncate": (77, 46), "chmod": (90, None),
                  "fchmod": (91, 52), "fchmodat": (268, 53)},
}  # fmt: skip
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
    """Return the filter for a machine ("x86_64" or "aarch64"), as the kernel reads it: 8 bytes an instruction.

    Raises KeyError: the machine is another."""
    place, arch = MACHINES[machine]
    lines: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":  # numbers of x32, which are others for the same calls
        lines += [(_AT_LEAST, 0, 1, 0x40000000), _answer(errno.ENOSYS)]
    for numbers in _ALLOWED.values():
        lines += _of(numbers[place], [(_RETURN, 0, 0, _ALLOW)])
    for number, calls in _REFUSED.items():
        for numbers in calls.values():
            lines += _of(numbers[place], [_answer(number)])
    for numbers, flags in _OPEN.values():
        lines += _of(numbers[place], _read_only(flags))
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


def _read_only(flags: int) -> list[Instruction]:
    return [_argument(2 * flags), (_ANY_BIT, 0, 1, _NOT_READ_ONLY), _answer(errno.EROFS), (_RETURN, 0, 0, _ALLOW)]


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
    "a limit of memory": ("bytearray({memory} * 2**20)", "MemoryError", "memory was had"),
}
PROMISES = {name: _ATTEMPT.format(what=what, error=error, then=then) for name, (what, error, then) in _TRIES.items()}
PROMISES["an empty environment"] = "import os; assert not os.environ"
