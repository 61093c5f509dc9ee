"""Processes that begin with all imports done: forks of a server that has them, and, below these, forks in turn.

A process takes seconds to import torch, transformers and what else it uses, and a pipeline starts dozens. What they do,
and their files and signals, are as ever. A server that ends takes its forks with it."""

import atexit
import contextlib
import fcntl
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from argosy.core.step.process import DIE_WITH_PARENT
from tests.processes import ROOT as ROOT

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.warm_imports"])
_LAST = 4096  # of the numbers of files


class Popen:
    """`subprocess.Popen` of a command of this Python, `-m MODULE ...` or `-c CODE ...`; `warm` is whether it forks."""

    def __init__(self, args: Sequence[Any], *, cwd: Any = None, env: Mapping[str, str] | None = None, stdin: Any = None,
                 stdout: Any = subprocess.DEVNULL, stderr: Any = subprocess.STDOUT, pass_fds: Sequence[int] = (),
                 start_new_session: bool = False, warm: bool = True) -> None:
        assert args[0] == sys.executable
        self.stdin: IO[bytes] | None = None
        with open(os.devnull, "r+b") as nothing, contextlib.ExitStack() as ours:
            if stdin == subprocess.PIPE:
                read, write = os.pipe()
                self.stdin, stdin = os.fdopen(write, "wb"), ours.enter_context(os.fdopen(read, "rb"))
            out = nothing if stdout == subprocess.DEVNULL else stdout
            files = [stdin or nothing, out, out if stderr == subprocess.STDOUT else stderr]
            numbers = [each if isinstance(each, int) else each.fileno() for each in files if each != subprocess.DEVNULL]
            given = {number: _File(file) for number, file in {**dict(enumerate(numbers)),
                                                              **{each: each for each in pass_fds}}.items()}
            self._process: BaseProcess = SERVER.Process(target=_begin, args=(
                list(map(str, args[1:])), dict(os.environ if env is None else env), str(cwd or Path.cwd()), given,
                start_new_session, warm))
            self._process.start()
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(args: Sequence[Any], *, given: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with text that it is `given`, and with what it prints."""
    with contextlib.ExitStack() as open_:
        read, out, err = (open_.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3))
        read.write(given)
        read.seek(0)
        code = Popen(args, stdin=read, stdout=out, stderr=err, **more).wait(300)
        printed = [file.seek(0) or file.read() for file in (out, err)]
    return subprocess.CompletedProcess(args, code, *printed)


SUBPROCESS = SimpleNamespace(**{**vars(subprocess), "Popen": Popen})
"""What a module that starts commands of this Python may take for `subprocess`."""


class _File:
    """A file that is open here, and in the process that gets this, by its number there."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _opened, (DupFd(self._number),)  # type: ignore[no-untyped-call]


def _opened(file: Any) -> int:
    return int(file.detach())


def _begin(command: list[str], environment: dict[str, str], cwd: str, files: dict[int, int], session: bool, warm: bool
           ) -> None:
    if DIE_WITH_PARENT in environment:
        environment[DIE_WITH_PARENT] = str(os.getppid())
    if session:
        os.setsid()
    if not warm:
        _take(files)
        os.chdir(cwd)
        os.execve(sys.executable, [sys.executable, *command], environment)
    subprocess.Popen._execute_child = _execute_child  # type: ignore[attr-defined]
    _become(command, environment, cwd, files)


_executed: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]


def _execute_child(self: Any, command: Any, executable: Any, before: Any, close: bool, passed: Any, cwd: Any, env: Any,
                   *more: Any) -> None:
    """Fork instead of the execution of a command of this Python."""
    if isinstance(command, str) or command[0] != sys.executable or command[1] not in ("-m", "-c") or before:
        _executed(self, command, executable, before, close, passed, cwd, env, *more)
        return
    pipes, new_session = more[3:9], more[14]
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        if new_session:
            os.setsid()
        ours = [number if given == -1 else given for number, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        _become(list(map(str, command[1:])), os.environ if env is None else env, cwd,
                {**dict(enumerate(ours)), **{number: number for number in passed}})
    self.pid, self._child_created = pid, True
    self._close_pipe_fds(*pipes)


def _become(command: list[str], environment: Mapping[str, str], cwd: Any, files: Mapping[int, int]) -> None:
    """Run the command with these files, and nothing else of the process that this is a copy of; then end."""
    code: Any = 1
    try:
        _forget()
        _take(files)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  open to the end
        given = dict(environment)
        os.environ.clear()
        os.environ.update(given)
        if cwd:
            os.chdir(cwd)
        _run(command)
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _take(files: Mapping[int, int]) -> None:
    """Give each file its number, and close all others."""
    there = {number: fcntl.fcntl(file, fcntl.F_DUPFD, _LAST // 2) for number, file in files.items()}
    for number, file in there.items():
        os.dup2(file, number)
    for below, above in pairwise([*sorted(files), _LAST]):
        os.closerange(below + 1, above)


def _forget() -> None:
    """Forget signals and what was to be done at the end of the process that forked."""
    atexit._clear()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGCONT, signal.SIGALRM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(command: list[str]) -> None:
    """As `python` runs it: its module is `__main__`."""
    kind, what, *arguments = command
    sys.argv = [kind, *arguments]
    if kind == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        return
    sys.modules.pop(what, None)
    runpy.run_module(what, run_name="__main__", alter_sys=True)
