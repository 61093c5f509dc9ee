"""Which process holds a lease, and whether it still lives."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Holder:
    """A process, named so that neither a reused pid nor a container with the same host name is mistaken for it."""

    host: str
    pid: int
    started: str  # the kernel's start time of the process
    machine: str  # boot and pid namespace in which `pid` means something
    token: str

    @classmethod
    def me(cls) -> Holder:
        """This process, with a new token."""
        return cls(socket.gethostname(), os.getpid(), _process_start(os.getpid()), _machine(), uuid.uuid4().hex)

    def is_dead(self) -> bool:
        """Known to be gone: it ran where this process runs, and is no more. False where that cannot be known."""
        return self.machine == _machine() and _process_start(self.pid) != self.started


def _process_start(pid: int) -> str:
    """When the kernel started `pid`; "" if there is no such process or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _process_exists(pid)
    return "" if fields[0] in "ZX" else fields[19]


def _process_exists(pid: int) -> str:
    """As `_process_start`, for a system without /proc."""
    if os.path.isdir("/proc/self"):
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "exists"


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{uuid.getnode():x}"
