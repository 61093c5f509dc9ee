"""The program of a sandbox's process: it gives up what it may do, then runs the answer and its tests.

It is run by its path, outside of any package, and imports little, since it starts for each answer. From its standard
input it reads the job and two tokens, and before each test that test and a token. A report is a line: the token that
was read last, and nothing behind it where all went well (the restrictions, the code, a test), else what went wrong. So
nothing in this process's memory tells beforehand how a report looks that counts."""

import ctypes
import marshal
import os
import resource
import sys

TYPE_CHECKING = False  # as typing's, which takes longer to import than all that is used here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PDEATHSIG, _NO_NEW_PRIVS, _SECCOMP, _CAPBSET_DROP = 1, 38, 22, 24
_RULESET, _RULE, _RESTRICT = 444, 445, 446  # system calls of Landlock, on every machine
_FILES = {1: 13, 2: 14, 3: 15, 5: 16}  # rights to files that versions of Landlock know
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_KILL = 9  # the signal
_TOKEN = 32  # bytes
_LONGEST = 160  # characters of an error that is told


class Missing(Exception):
    """A promise that the kernel does not keep."""


def main() -> None:
    """Read the job, restrict this process, run the job."""
    job = marshal.loads(_read(0))
    channel, out = os.dup(0), os.dup(1)
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    token = _bytes(channel, _TOKEN)
    try:
        _restrict(job)
    except Missing as missing:
        os.write(out, token + str(missing).encode() + b"\n")
        os._exit(0)
    os.write(out, token + b"\n")
    _run(job["code"], job["tests"], channel, out)
    os._exit(0)


def _bytes(number: int, count: int, read: "Callable[[int, int], bytes]" = os.read) -> bytes:
    """Read so many bytes; raises EOFError where there are fewer."""
    found = b""
    while len(found) < count:
        part = read(number, count - len(found))
        if not part:
            raise EOFError
        found += part
    return found


def _read(number: int, exactly: "Callable[[int, int], bytes]" = _bytes) -> bytes:
    """Read what a line with its length stands before."""
    size = b""
    while size[-1:] != b"\n":
        size += exactly(number, 1)
    return exactly(number, int(size))


def _restrict(job: "dict[str, Any]") -> None:
    """Give up everything but computing and reading Python's library. Raises Missing: the kernel cannot."""
    os.environ.clear()
    os.umask(0o077)
    _die_with(job["parent"])
    version = _syscall(_RULESET, 0, 0, 1)
    if version < 1 and not job["walled"]:  # by bubblewrap, which has begun this process in a root of its own
        raise Missing(f"Landlock ({_error()}) and no bubblewrap")
    _limit(job["seconds"], job["memory_mb"] * 2**20)
    _drop_capabilities()
    if _LIBC.prctl(_NO_NEW_PRIVS, *_longs(1, 0, 0, 0)):
        raise Missing(f"no_new_privs ({_error()})")
    if version >= 1:
        _restrict_files(job["readable"], version)
    _restrict_calls(bytes.fromhex(job["filter"]))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    _LIBC.prctl(_PDEATHSIG, *_longs(_KILL, 0, 0, 0))
    if os.getppid() != parent:
        os._exit(3)


def _limit(seconds: int, memory: int) -> None:
    for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0),
                       (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_NOFILE, 64),
                       (resource.RLIMIT_MEMLOCK, 0), (resource.RLIMIT_MSGQUEUE, 0)):  # fmt: skip
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _drop_capabilities() -> None:
    for number in range(64):
        _LIBC.prctl(_CAPBSET_DROP, *_longs(number, 0, 0, 0))  # fails where there are none to drop
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if _LIBC.capset(header, none):
        raise Missing(f"dropping capabilities ({_error()})")


def _restrict_files(readable: list[str], version: int) -> None:
    """Allow nothing but reading below these paths, by Landlock."""
    rights = (1 << max(count for known, count in _FILES.items() if known <= version)) - 1
    ruleset = (ctypes.c_uint64 * 3)(rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)  # files, TCP, scopes
    held = _syscall(_RULESET, ctypes.addressof(ruleset), 8 * (1 + (version >= 4) + (version >= 6)), 0)
    if held < 0:
        raise Missing(f"Landlock ({_error()})")
    for path in readable:
        try:
            place = os.open(path, 0o10000000 | os.O_CLOEXEC)  # O_PATH
        except OSError:
            continue
        allowed = _READ_FILE | _EXECUTE | (_READ_DIR if os.path.isdir(path) else 0)
        rule = (ctypes.c_char * 12).from_buffer_copy(allowed.to_bytes(8, "little") + place.to_bytes(4, "little"))
        if _syscall(_RULE, held, 1, ctypes.addressof(rule), 0):
            raise Missing(f"Landlock: {path} ({_error()})")
        os.close(place)
    if _syscall(_RESTRICT, held, 0):
        raise Missing(f"Landlock ({_error()})")
    os.close(held)


def _restrict_calls(program: bytes) -> None:
    lines = ctypes.create_string_buffer(program, len(program))
    filter_ = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(lines))  # struct sock_fprog, little endian
    if _LIBC.prctl(_SECCOMP, *_longs(2, ctypes.addressof(filter_), 0, 0)):
        raise Missing(f"seccomp filters ({_error()})")


def _longs(*values: int) -> list[ctypes.c_ulong]:
    return [ctypes.c_ulong(value) for value in values]


def _syscall(number: int, *values: int) -> int:
    found: int = _LIBC.syscall(ctypes.c_long(number), *_longs(*values))
    return found


def _error() -> str:
    return os.strerror(ctypes.get_errno())


def _run(code: str, tests: int, channel: int, out: int) -> None:
    """Run the answer and then its tests, and report each. What is used after the answer is taken before it: it may put
    anything in the place of a name."""
    exactly, receive, write, describe, size = _bytes, _read, os.write, _described, _TOKEN
    run, translate, failed, exhausted = exec, compile, BaseException, MemoryError
    watches, builtins = (sys.settrace, sys.setprofile), dict(vars(sys.modules["builtins"]))
    module = type(sys)("answer")
    sys.modules["answer"] = module
    space = vars(module)

    def attempt(source: str, name: str) -> bytes:
        try:
            run(translate(source, name, "exec", 0, True), space)
        except exhausted:
            space.clear()
            return b"MemoryError"
        except failed as error:
            return describe(error)
        finally:
            for watch in watches:  # a trace function may jump over lines, and see what is read
                watch(None)
        return b""

    report = attempt(code, "answer")
    write(out, exactly(channel, size) + report + b"\n")
    if report:
        return
    for number in range(tests):
        source = receive(channel).decode()
        space["__builtins__"] = builtins
        report = attempt(source, f"test {number + 1}")
        write(out, exactly(channel, size) + report + b"\n")


def _described(error: BaseException) -> bytes:
    """Name an error, with its words. These are the answer's own, as an error may be of a class of its."""
    name = str(type(error).__name__)
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    said = f"{name}: {words}" if words else name
    return said[:_LONGEST].encode(errors="replace").replace(b"\n", b" ") or b"an error without a name"


if __name__ == "__main__":
    main()
