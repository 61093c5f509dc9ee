"""The process of a node, or of several parts of one."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from argosy.core.step.machine import shown
from argosy.core.step.process import DIE_WITH_PARENT, EVENTS, thread_environment
from argosy.core.store.goodput import MEMORY, PRICE
from argosy.core.store.step_files import LOG
from workflows.graph import Resources
from workflows.local.scheduler import Share
from workflows.plan import PlannedNode

ROOT = Path(__file__).resolve().parents[2]  # where `steps` is importable from
_LONGEST_ARGUMENT = 100_000  # Linux allows 128 KiB for one

Event = dict[str, Any]


class StepProcess:
    """A step's process. It starts in a process group of its own, so that its children end with it.

    Must be made in the main thread: the kernel kills the process when the thread that made it ends.

    Args:
        on_event: called with each event of the process ("start" and "end" of an item).
        on_exit: called once with the return code (negative: a signal), after the last event."""

    def __init__(self, nodes: Sequence[PlannedNode], share: Share, on_event: "Callable[[StepProcess, Event], None]",
                 on_exit: "Callable[[StepProcess, int], None]") -> None:
        self.nodes, self.share = nodes, share
        self._on_event, self._on_exit = on_event, on_exit
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self._events, to_runner = os.pipe()
        os.set_blocking(self._events, False)
        try:
            with contextlib.ExitStack() as files:
                self._process = self._spawn(files, to_runner)
        except BaseException:
            os.close(self._events)
            raise
        finally:
            os.close(to_runner)
        self._loop.add_reader(self._events, self._read_events)
        self._watch()

    def terminate(self) -> None:
        """Ask the step to stop; it stops its children itself."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """Kill the step and its children, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _spawn(self, files: contextlib.ExitStack, events: int) -> subprocess.Popen[bytes]:
        first = self.nodes[0]
        for node in self.nodes:
            os.makedirs(node.dir, exist_ok=True)
        log = files.enter_context(open(Path(first.dir, LOG), "ab"))  # noqa: SIM115  the stack closes it
        passed = [events]
        command = first.command
        if len(self.nodes) > 1 or max(map(len, command)) > _LONGEST_ARGUMENT:
            batch = files.enter_context(_batch_file(self.nodes))
            passed.append(batch.fileno())
            command = [*command[:3], "--batch", f"/dev/fd/{batch.fileno()}"]
        return subprocess.Popen(
            [sys.executable, *command[1:]], cwd=ROOT, env=_environment(first.resources, self.share.gpus, events),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=passed, start_new_session=True)

    def _watch(self) -> None:
        """Have `_exited` called when the process ends, which stays a zombie until then."""
        pid = self._process.pid
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(pid)
            self._loop.add_reader(self._pidfd, self._exited)
        else:
            def wait() -> None:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                self._loop.call_soon_threadsafe(self._exited)

            threading.Thread(target=wait, daemon=True).start()

    def _exited(self) -> None:
        if hasattr(self, "_pidfd"):
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._read_events()
        self._loop.remove_reader(self._events)
        os.close(self._events)
        self.kill()  # children that it left behind; before it is reaped, while its id is still its own
        self._on_exit(self, self._process.wait())

    def _read_events(self) -> None:
        while True:
            try:
                data = os.read(self._events, 65536)
            except BlockingIOError:
                break
            if not data:
                self._loop.remove_reader(self._events)  # all writers are gone
                break
            self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._on_event(self, json.loads(line))


def _environment(given: Resources, gpus: Sequence[str] | None, events: int) -> dict[str, str]:
    without_plugins = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}  # 20 ms a process to look for them
    devices = {} if gpus is None else shown(gpus)
    price = {} if given.gpu_hour_price is None else {PRICE: str(given.gpu_hour_price)}
    return {**without_plugins, **os.environ, **thread_environment(given.cores), **devices, **price,
            MEMORY: str(given.memory_gb), "PYTHONUNBUFFERED": "1", DIE_WITH_PARENT: str(os.getpid()),
            EVENTS: str(events)}


def _batch_file(nodes: Sequence[PlannedNode]) -> IO[bytes]:
    """Write the items for `--batch`, in a file without a name: nothing is left behind when it is killed."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    items = [{"config": json.loads(n.config), "out": n.dir, "node": json.loads(n.provenance)} for n in nodes]
    file.write(json.dumps(items).encode())
    file.flush()
    file.seek(0)
    return file
