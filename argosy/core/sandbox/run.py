"""Runs of answers with tests, each in a process of its own that may compute and nothing else (child.py).

The process is begun by bubblewrap where that is installed and the kernel lets it; what child.py gives up holds besides.
docs/posttraining.md says what is held, by what, and what is refused."""

import marshal
import os
import platform
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.core.errors import StepError
from argosy.core.sandbox.syscalls import MACHINES, PROMISES, program
from argosy.core.step.machine import usable_cores
from argosy.core.step.process import THREADS

_CHILD = Path(__file__).with_name("child.py")
_MOST_REPORTED = 2**20  # bytes that a process may report, more than all tests need
_TOKEN = 16  # bytes, of which the hexadecimal digits are sent
_TRIES = 3  # to start a process
_GRACE = 2.0  # seconds between a process's last word and its end
_SIGNALLED = 128  # plus a signal: how bubblewrap ends where that ended its process
_OURS = ("our own sandbox, since bubblewrap (bwrap) is not installed or may not start here; code can learn names, "
         "sizes and times of files, but not read them")
# What an interpreter reads besides its own library.
_READABLE = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo",
             "/dev/null", "/dev/zero", "/dev/urandom")  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Limits of a run: seconds of CPU time, seconds of any time (which pass sooner on a busy machine), MiB."""

    seconds: int = 5
    wall_seconds: int = 30
    memory_mb: int = 512


@dataclass(frozen=True)
class Job:
    """Python source, and the tests that are run after it in its namespace: each passes where it raises nothing."""

    code: str
    tests: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    """Results of the tests in their order, and why the first failed one did."""

    passed: tuple[bool, ...]
    reason: str


class Sandbox:
    """A place where nobody's code is run.

    Args:
        bubblewrap: whether that holds processes too, where it is installed and may start.

    Attributes:
        held_by: what holds processes here, for people, with what that cannot hold.

    Raises StepError: the kernel lacks what is promised; it names what, and what to do."""

    def __init__(self, limits: Limits = Limits(), bubblewrap: bool = True) -> None:
        self.limits = limits
        self._outer = _bubblewrap() if bubblewrap else []
        self.held_by = "bubblewrap" if self._outer else _OURS
        if not sys.platform.startswith("linux") or platform.machine() not in MACHINES:
            raise StepError(f"no sandbox for code on {sys.platform} {platform.machine()}: it needs Linux on "
                            f"{' or '.join(MACHINES)}; run the step there, or leave code out of rewards")
        self._filter = program(platform.machine()).hex()
        self._check()

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Return the outcomes of jobs, in their order; as many run at a time as this process has cores."""
        running: set[int] = set()
        pool = ThreadPoolExecutor(min(int(os.environ.get(THREADS) or 2**10), usable_cores()))
        try:
            return list(pool.map(lambda job: self._run(job, running), jobs))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):  # none, unless this is unwound by a signal
                _kill(process)
            pool.shutdown()

    def _check(self) -> None:
        """Try everything that is promised not to work."""
        with tempfile.TemporaryDirectory() as folder:
            secret = Path(folder, "secret")
            secret.write_text("told")
            tests = [source.format(folder=folder, secret=str(secret), parent=os.getpid(), memory=self.limits.memory_mb)
                     for source in PROMISES.values()]  # fmt: skip
            outcome = self._run(Job("", tests), set())
        broken = [name for name, held in zip(PROMISES, outcome.passed, strict=True) if not held]
        if broken:
            raise StepError(f"the sandbox for code does not hold here: {', '.join(broken)} ({outcome.reason}); run the "
                            "step on another machine, or leave code out of rewards")

    def _run(self, job: Job, running: set[int]) -> Outcome:
        """Return the outcome of a job. A process that ends before it has run any code, as where the machine has no
        memory left for it, is started again."""
        for _ in range(_TRIES):
            reports, death = self._started(job, running)
            if reports and reports[0]:
                raise StepError(f"the kernel gives no {reports[0]}, and code is not run without: the sandbox needs "
                                "Linux with seccomp filters, with Landlock (5.13, among its security modules) or else "
                                "bubblewrap, and a container runtime that lets these calls through; run the step "
                                "there, or leave code out of rewards")
            if reports:
                return _outcome(reports[1:], len(job.tests), death, self.limits)
        raise StepError(f"processes for code ended {_TRIES} times before they ran any: {death}; give the step more "
                        "memory and processes, or leave code out of rewards")

    def _started(self, job: Job, running: set[int]) -> tuple[list[str], str]:
        """Run a job in a process; returns its reports, and how the process ended."""
        tokens = [secrets.token_hex(_TOKEN).encode() for _ in range(len(job.tests) + 2)]
        given = {"code": job.code, "tests": len(job.tests), "parent": 0 if self._outer else os.getpid(),
                 "walled": bool(self._outer), "seconds": self.limits.seconds, "memory_mb": self.limits.memory_mb,
                 "filter": self._filter, "readable": _readable()}  # fmt: skip
        parts = [_measured(marshal.dumps(given)), *tokens[:2]]
        for test, token in zip(job.tests, tokens[2:], strict=True):
            parts += [_measured(test.encode()), token]
        try:
            # An interpreter whose sets have the same order in each run, and that finds no package of ours.
            process = subprocess.Popen(
                [*self._outer, _interpreter(), "-s", "-S", "-P", "-B", "-X", "utf8", str(_CHILD)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PYTHONHASHSEED": "0"},
                cwd="/", start_new_session=True)  # fmt: skip
        except OSError as error:
            return [], f"it could not be started ({error.strerror})"
        running.add(process.pid)
        said, ended = b"", "killed"
        try:
            said, ended = _exchange(process, b"".join(parts), self.limits.wall_seconds)
        finally:
            code, spent = _end(process, _GRACE if not ended else 0.0)
            if self._outer and code > _SIGNALLED:
                code = _SIGNALLED - code
            running.discard(process.pid)
        return _reports(said, tokens), ended or _death(code, spent, self.limits)


def _bubblewrap() -> list[str]:
    """Return the command that begins a program in bubblewrap; [] where that is not installed, or does not start."""
    found = shutil.which("bwrap")
    if not found:
        return []
    paths = [*_readable(), _interpreter(), str(_CHILD)]
    binds = [(f"--{'dev' if path.startswith('/dev/') else 'ro'}-bind-try", path, path) for path in paths]
    command = [found, "--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL",
               *(word for bind in binds for word in bind), "--remount-ro", "/", "--chdir", "/", "--"]  # fmt: skip
    try:
        tried = subprocess.run([*command, _interpreter(), "-S", "-c", ""], env={}, capture_output=True, check=False)
    except OSError:
        return []
    return [] if tried.returncode else command


def _interpreter() -> str:
    """Return the interpreter itself, and not the link to it of a virtual environment."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def _measured(data: bytes) -> bytes:
    return f"{len(data)}\n".encode() + data


def _readable() -> list[str]:
    return [*dict.fromkeys((*_READABLE, sysconfig.get_path("stdlib"), str(Path(sys.base_prefix, "lib")),
                            str(Path(sys.base_exec_prefix, "lib"))))]  # fmt: skip


def _exchange(process: "subprocess.Popen[bytes]", data: bytes, wall: float) -> tuple[bytes, str]:
    """Write `data` to a process and read what it says, up to its end; returns that, and why it was not waited for."""
    assert process.stdin
    assert process.stdout
    into, out = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(into, False)
    deadline, said = time.monotonic() + wall, b""
    with selectors.DefaultSelector() as ready:
        ready.register(out, selectors.EVENT_READ)
        ready.register(into, selectors.EVENT_WRITE)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                if key.fd == into:
                    try:
                        data = data[os.write(into, data[: 2**16]) :]
                    except BrokenPipeError:
                        data = b""
                    if not data:
                        ready.unregister(into)
                    continue
                chunk = os.read(out, 2**16)
                said += chunk
                if not chunk:
                    return said, ""
                if len(said) > _MOST_REPORTED:
                    return said, "killed: it wrote to where reports are read"
    return said, f"killed: more than {wall:g} s"


def _end(process: "subprocess.Popen[bytes]", grace: float) -> tuple[int, float]:
    """Wait `grace` seconds for a process, then kill it; returns its exit code (-9: by signal 9) and its CPU time."""
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    deadline = time.monotonic() + grace
    found, status, usage = os.wait4(process.pid, os.WNOHANG)
    while not found:
        if time.monotonic() >= deadline:
            _kill(process.pid)
            found, status, usage = os.wait4(process.pid, 0)
        else:
            time.sleep(0.001)
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _death(code: int, spent: float, limits: Limits) -> str:
    """Say how a process ended that has not reported all."""
    if code >= 0:
        return "the process ended by itself"
    if code == -signal.SIGKILL and spent >= limits.seconds / 2:  # the limit counts ticks: a fifth more, of system calls
        return f"killed: more than {limits.seconds} s of CPU time"
    if code == -signal.SIGKILL:
        return "killed by the system, perhaps for want of memory"
    return f"killed: {signal.Signals(-code).name}"


def _reports(said: bytes, tokens: Sequence[bytes]) -> list[str]:
    """Return the reports that begin with their token, in their order; anything else was said by the answer."""
    reports: list[str] = []
    for line in said.split(b"\n")[:-1]:
        if len(reports) < len(tokens) and line.startswith(tokens[len(reports)]):
            reports.append(line[len(tokens[0]) :].decode(errors="replace"))
    return reports


def _outcome(reports: Sequence[str], tests: int, death: str, limits: Limits) -> Outcome:
    """Make the outcome of the reports of the code and of each test, and of how the process ended."""
    told = [f"{each}: more than {limits.memory_mb} MiB" if each == "MemoryError" else each for each in reports]
    told += [death] * (tests + 1 - len(told))
    if told[0]:
        return Outcome((False,) * tests, told[0])
    first = next((number for number, error in enumerate(told) if error), 0)
    return Outcome(tuple(not error for error in told[1:]),
                   f"test {first}: {told[first]}" if first else f"all {tests} tests passed")
