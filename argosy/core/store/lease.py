"""A lease on a step's directory: one process at a time writes it, and a dead one's is taken over.

`.lease` names the holder; its mtime is the heartbeat. Every change of it is made under flock of the same file, which
the kernel drops with the process, so two takers cannot both win; the heartbeat, not the lock, says who is alive, since
a machine that lost power never drops its locks on a network file system."""

import contextlib
import fcntl
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from argosy.core.errors import InputError, StepError, Stopped


@dataclass(frozen=True)
class Holder:
    """A process, named so that neither a reused pid nor a container with the same host name is mistaken for it."""

    host: str
    pid: int
    started: str  # the kernel's start time of the process
    machine: str  # boot and pid namespace in which `pid` means something
    token: str

    @classmethod
    def me(cls) -> "Holder":
        """Describe this process, with a new token."""
        return cls(socket.gethostname(), os.getpid(), process_start(os.getpid()), _machine(), uuid.uuid4().hex)

    def is_dead(self) -> bool:
        """Tell whether it is known to be gone: it ran on this machine, and is no more. False where nobody knows."""
        return self.machine == _machine() and process_start(self.pid) != self.started


def process_start(pid: int) -> str:
    """Return when the kernel started `pid`; "" if there is no such process or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _process_exists(pid)
    return "" if fields[0] in "ZX" else fields[19]


def _process_exists(pid: int) -> str:
    """Do the same on a system without /proc."""
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


LEASE = ".lease"
_POLL_S = (0.05, 1.0)  # first and longest pause between two looks at another's lease


def stale_after() -> float:
    """Return the seconds without a heartbeat after which a holder counts as dead (ARGOSY_LEASE_SECONDS, 30)."""
    return seconds_from("ARGOSY_LEASE_SECONDS", 30)


def seconds_from(variable: str, default: float) -> float:
    """Read a number of seconds from the environment. Raises InputError: it is none above 0."""
    text = os.environ.get(variable, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"{variable} is {text!r}, allowed: seconds above 0")
    return seconds


def check_seconds() -> None:
    """Check every variable of seconds, before anything starts. Raises InputError: one is none above 0."""
    for name in sorted(os.environ):
        if re.fullmatch(r"ARGOSY_\w+_(TIMEOUT|WAIT|SECONDS)", name):
            seconds_from(name, 1)


class LeaseLost(Stopped):
    """The loss of a lease: another process took the directory over, as this one was suspended or cut off too long."""


class Lease:
    """The right to write `directory`, held until `release`.

    Args:
        directory: exists.
        on_lost: called from the heartbeat's thread, once, when another took the lease.
        token: of the process that holds the lease already, for which this one works too."""

    def __init__(self, directory: Path, on_lost: Callable[[], None] = lambda: None, token: str = "") -> None:
        self._path = directory / LEASE
        self._me = Holder.me()
        self.token = token or self._me.token
        self._on_lost = on_lost
        self._released = threading.Event()
        self._stale_after = stale_after()

    def try_acquire(self) -> Holder | None:
        """Take the lease if it is free or stale; else return its live holder."""
        with locked(self._path, create=True) as file:
            holder = _read(file)
            if holder is not None and not holder.is_dead() and _age(self._path, file) <= self._stale_after:
                return holder
            raw = json.dumps(asdict(self._me)).encode()
            os.ftruncate(file, 0)
            os.pwrite(file, raw, 0)
        threading.Thread(target=self._beat, name="lease", daemon=True).start()
        return None

    def acquire(self, finished: Callable[[], bool], waiting: Callable[[Holder], None]) -> bool:
        """Wait for the lease. `waiting` is called once if there is a wait; False if `finished` came true meanwhile."""
        pause, last = _POLL_S
        announced = False
        while (holder := self.try_acquire()) is not None:
            if finished():
                return False
            if not announced:
                waiting(holder)
                announced = True
            time.sleep(pause)
            pause = min(2 * pause, last)
        return True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from taking the lease over, inside: for the write that says the directory is done. Raises
        LeaseLost: somebody already did."""
        try:
            with locked(self._path, create=False) as file:
                self._check(file)
                yield
        except FileNotFoundError:
            raise self._lost() from None

    def renew(self) -> None:
        """Give a sign of life. Raises LeaseLost: another process took the directory over; OSError: the store stalls."""
        with self.held():
            os.utime(self._path)

    def check(self) -> None:
        """Make sure that it is still held; without a lock, so that the handler of a signal may call it. Raises
        LeaseLost: another process took the directory over."""
        if self._released.is_set():
            return
        try:
            with open(self._path, "rb") as file:
                self._check(file.fileno())
        except FileNotFoundError:
            raise self._lost() from None

    def release(self) -> None:
        """Give the lease back; do nothing if it was lost."""
        self._released.set()
        with contextlib.suppress(FileNotFoundError, LeaseLost), locked(self._path, create=False) as file:
            self._check(file)
            self._path.unlink()

    def _check(self, file: int) -> None:
        holder = _read(file)
        if holder is None or holder.token != self.token:
            raise self._lost(holder)

    def _lost(self, holder: Holder | None = None) -> LeaseLost:
        by = f" by process {holder.pid} on {holder.host}" if holder else ""
        return LeaseLost(f"{self._path.parent} was taken over{by}: this process gave no sign of life for "
                         f"{self._stale_after:g} s; nothing more is written", exit_code=1)

    def _beat(self) -> None:
        while not self._released.wait(self._stale_after / 6):
            try:
                self.renew()
            except LeaseLost:
                if not self._released.is_set():
                    self._on_lost()
                return
            except OSError:
                continue  # a store that stalls; `held` is what decides in the end


def last_sign(directory: Path) -> float:
    """Return when a holder of the lease last gave a sign of life; 0 where it was given back."""
    try:
        return (directory / LEASE).stat().st_mtime
    except OSError:
        return 0.0


def live_holder(directory: str | Path) -> Holder | None:
    """Return who is writing `directory` now, for showing; None if nobody."""
    try:
        file = os.open(os.path.join(directory, LEASE), os.O_RDONLY)
    except OSError:
        return None
    try:
        holder, age = _read(file), time.time() - os.fstat(file).st_mtime
    finally:
        os.close(file)
    return holder if holder and not holder.is_dead() and age <= stale_after() else None


@contextlib.contextmanager
def locked(path: Path, *, create: bool) -> Iterator[int]:
    """`path`, open and locked; opened again if it was removed between opening and locking."""
    while True:
        file = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                raise StepError(f"cannot lock {path}: {error.strerror}; the store must be on a file system with flock "
                                "(a local disk, NFS 4, CephFS, JuiceFS)") from None
            if is_current(file, path):
                yield file
                return
        finally:
            os.close(file)


def is_current(file: int, path: Path) -> bool:
    """Tell whether an open file still has its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


def _read(file: int) -> Holder | None:
    """Read the holder that the file names; None if it is free or its writer died while writing (it held the lock)."""
    try:
        return Holder(**json.loads(os.pread(file, 4096, 0)))
    except (ValueError, TypeError):
        return None


def _age(path: Path, file: int) -> float:
    """Return the seconds since the last heartbeat by the store's own clock: another host's may be wrong by minutes."""
    import tempfile  # only on the way to a wait

    with tempfile.TemporaryFile(dir=path.parent) as probe:
        return os.fstat(probe.fileno()).st_mtime - os.fstat(file).st_mtime
