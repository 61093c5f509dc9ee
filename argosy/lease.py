"""A lease on a step's directory: one process at a time writes it, and a dead one's is taken over.

`.lease` names the holder; its mtime is the heartbeat. Every change of it is made under flock of the same file, which
the kernel drops with the process, so two takers cannot both win; the heartbeat, not the lock, says who is alive, since
a machine that lost power never drops its locks on a network file system.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from argosy.errors import InputError, StepError, Stopped
from argosy.holder import Holder

LEASE = ".lease"
_POLL_S = (0.05, 1.0)  # first and longest pause between two looks at another's lease


def stale_after() -> float:
    """Seconds without a heartbeat after which a holder counts as dead (ARGOSY_LEASE_SECONDS, 30)."""
    text = os.environ.get("ARGOSY_LEASE_SECONDS", "30")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"ARGOSY_LEASE_SECONDS is {text!r}, allowed: seconds above 0")
    return seconds


class LeaseLost(Stopped):
    """Another process took the directory over, because this one was suspended or cut off for too long."""


class Lease:
    """The right to write `directory`, held until `release`.

    Args:
        directory: exists.
        on_lost: called from the heartbeat's thread, once, when another took the lease.
    """

    def __init__(self, directory: Path, on_lost: Callable[[], None] = lambda: None) -> None:
        self._path = directory / LEASE
        self._me = Holder.me()
        self._on_lost = on_lost
        self._released = threading.Event()
        self._stale_after = stale_after()

    def try_acquire(self) -> Holder | None:
        """Take the lease if it is free or stale; else return its live holder."""
        with _locked(self._path, create=True) as file:
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
        told = False
        while (holder := self.try_acquire()) is not None:
            if finished():
                return False
            if not told:
                waiting(holder)
                told = True
            time.sleep(pause)
            pause = min(2 * pause, last)
        return True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Inside, nobody can take the lease over: for the write that says the directory is done.

        Raises:
            LeaseLost: somebody already did.
        """
        try:
            with _locked(self._path, create=False) as file:
                self._check(file)
                yield
        except FileNotFoundError:
            raise self._lost() from None

    def release(self) -> None:
        """Give the lease back; does nothing if it was lost."""
        self._released.set()
        with contextlib.suppress(FileNotFoundError, LeaseLost), _locked(self._path, create=False) as file:
            self._check(file)
            self._path.unlink()

    def _check(self, file: int) -> None:
        holder = _read(file)
        if holder is None or holder.token != self._me.token:
            raise self._lost(holder)

    def _lost(self, holder: Holder | None = None) -> LeaseLost:
        by = f" by process {holder.pid} on {holder.host}" if holder else ""
        return LeaseLost(f"{self._path.parent} was taken over{by}: this process gave no sign of life for "
                         f"{self._stale_after:g} s; nothing more is written", exit_code=1)

    def _beat(self) -> None:
        while not self._released.wait(self._stale_after / 6):
            try:
                with _locked(self._path, create=False) as file:
                    self._check(file)
                    os.utime(file)
            except (LeaseLost, FileNotFoundError):
                if not self._released.is_set():
                    self._on_lost()
                return
            except OSError:
                continue  # a store that stalls; `held` is what decides in the end


def live_holder(directory: str | Path) -> Holder | None:
    """Who is writing `directory` now, for showing; None if nobody."""
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
def _locked(path: Path, *, create: bool) -> Iterator[int]:
    """`path`, open and locked; opened again if it was removed between opening and locking."""
    while True:
        file = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        try:
            _lock(file, path)
            if _is_current(file, path):
                yield file
                return
        finally:
            os.close(file)


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        raise StepError(f"cannot lock {path}: {error.strerror}; the store must be on a file system with flock "
                        "(a local disk, NFS 4, CephFS, JuiceFS)") from None


def _is_current(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _read(file: int) -> Holder | None:
    """The holder that the file names; None if it is free or its writer died while writing (it held the lock)."""
    try:
        return Holder(**json.loads(os.pread(file, 4096, 0)))
    except (ValueError, TypeError):
        return None


def _age(path: Path, file: int) -> float:
    """Seconds since the last heartbeat by the store's own clock: another host's may be wrong by minutes."""
    import tempfile  # only on the way to a wait

    with tempfile.TemporaryFile(dir=path.parent) as probe:
        return os.fstat(probe.fileno()).st_mtime - os.fstat(file).st_mtime
