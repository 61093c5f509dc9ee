"""The shipper: follows the spools of a store and hands their batches to a sender. Knows no MLflow."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from argosy.lease import Holder
from argosy.tracking.batches import Batch, Owner, Shipped, is_late, next_batch, owner_of
from argosy.tracking.locking import locked

BATCHES_A_TURN = 20  # of one spool, before the others get theirs
FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 1.0, 60.0
LONGEST_POLL_S = 10.0


class Unavailable(Exception):
    """The tracking server did not take something now: try again later. The message says why, in a line."""


class Sender(Protocol):
    """Where batches go."""

    uri: str

    def open(self, owner: Owner) -> bool:
        """See to it that `owner` has a run; whether another process made it. Raises Unavailable."""
        ...

    def end(self, owner: Owner, status: str) -> None:
        """Set the status of the run of `owner`; raises Unavailable."""
        ...

    def send(self, spool: Path, owner: Owner, batch: Batch, *, doubtful: bool) -> str:
        """Send a batch; returns the id of its run.

        Args:
            doubtful: some of it may be there already, which must not appear twice.

        Raises:
            Unavailable: nothing, a part or all of it arrived.
        """
        ...


class Shipper:
    """Sends what spools hold, each record once, over crashes of this process and of the server.

    Args:
        find: lists the spools to follow; asked at each pass, since nodes appear.
        sender: takes the batches.
    """

    def __init__(self, find: Callable[[], list[Path]], sender: Sender) -> None:
        self._find = find
        self._sender = sender
        self._running: dict[Path, Holder] = {}
        self._sent: dict[Path, int] = {}  # size of a spool that had nothing left to send
        self.look_s = 0.0  # what finding out that nothing is new costs

    def sweep(self) -> bool:
        """One turn for each spool; True when nothing is left.

        Records about models go last, so that the spools that register the models have gone before.

        Raises:
            Unavailable: the server; what was sent so far is noted.
        """
        started = time.monotonic()
        pending = [spool for spool in self._find() if self._grew(spool)]
        self.look_s = time.monotonic() - started
        done = [self._turn(spool, late=False) for spool in pending]
        late = [self._turn(spool, late=True) for spool, finished in zip(pending, done, strict=True) if not finished]
        return all(late)

    def _grew(self, spool: Path) -> bool:
        try:
            size = spool.stat().st_size
        except OSError:
            return False
        return size > 0 and size != self._sent.get(spool)

    def _turn(self, spool: Path, *, late: bool) -> bool:
        """Send some batches of a spool; True when it has no more (or another shipper is at it)."""
        with locked(spool.with_name(".shipping.lock"), wait=False) as held:
            if not held:
                return True
            size = spool.stat().st_size
            shipped = Shipped.load(spool, self._sender.uri)
            shipped.fit(size)
            self._note_running(spool, shipped)
            owner: Owner | None = None
            for _ in range(BATCHES_A_TURN):
                doubtful = shipped.intent > shipped.offset
                batch = next_batch(spool, shipped.offset, shipped.intent if doubtful else None)
                if batch is None:
                    self._sent[spool] = size
                    return True
                if not late and batch.records and is_late(batch.records[0]):
                    return False
                owner = owner or owner_of(spool)
                if not doubtful and shipped.offset == 0 and self._sender.open(owner):
                    shipped.intent, doubtful = size, True  # sent before, and the note of it is lost
                    shipped.save()
                self._send(spool, owner, batch, shipped, doubtful=doubtful)
        return False

    def _send(self, spool: Path, owner: Owner, batch: Batch, shipped: Shipped, *, doubtful: bool) -> None:
        if not doubtful:
            shipped.intent = batch.end
            shipped.save()
        shipped.run_id = self._sender.send(spool, owner, batch, doubtful=doubtful)
        shipped.offset = batch.end
        for record in batch.of("status"):
            shipped.running = record.get("holder")
        self._note_running(spool, shipped)
        shipped.save()

    def _note_running(self, spool: Path, shipped: Shipped) -> None:
        self._running.pop(spool, None)
        if shipped.running:
            with contextlib.suppress(TypeError):  # another version's
                self._running[spool] = Holder(**shipped.running)

    def end_dead(self) -> None:
        """Runs whose process is gone without a word (`kill -9`, out of memory) get the status KILLED.

        Raises:
            Unavailable: the server.
        """
        for spool in [spool for spool, holder in self._running.items() if holder.is_dead()]:
            with locked(spool.with_name(".shipping.lock"), wait=False) as held:
                shipped = Shipped.load(spool, self._sender.uri)
                if not held or not shipped.running or spool.stat().st_size != shipped.offset:
                    continue  # somebody has gone on with it
                self._sender.end(owner_of(spool), "KILLED")
                shipped.running = None
                shipped.save()
            del self._running[spool]


def follow(shipper: Shipper, ended: Callable[[], bool], on_trouble: Callable[[str], None], poll_s: float = 1.0) -> bool:
    """Sweep until `ended`, and once more after it; True when everything was sent.

    A server that fails is asked again after 1, 2, 4, ... 60 s; `on_trouble` hears the reason once for each outage.
    """
    back_off = 0.0
    retry_at = 0.0
    while True:
        last = ended()
        complete = False
        if last or time.monotonic() >= retry_at:
            try:
                complete = shipper.sweep()
                if last and complete:
                    shipper.end_dead()
                back_off = 0.0
            except Unavailable as trouble:
                if not back_off:
                    on_trouble(str(trouble))
                back_off = min(max(2 * back_off, FIRST_BACK_OFF_S), LONGEST_BACK_OFF_S)
                retry_at = time.monotonic() + back_off
                if last:
                    return False
        if last and complete:
            return True
        if complete or back_off:  # looking costs a twentieth of the time at most, however many spools there are
            time.sleep(min(max(poll_s, 20 * shipper.look_s), LONGEST_POLL_S))


def process_ended(pid: int) -> Callable[[], bool]:
    """Whether the process `pid`, which need not be a child, has ended."""
    started = _start_time(pid)

    def ended() -> bool:
        return started is None or _start_time(pid) != started

    return ended


def _start_time(pid: int) -> str | None:
    """When the process started, so that a reused id is not taken for it; None when there is none."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "running"
