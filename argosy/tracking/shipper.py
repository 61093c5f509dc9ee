"""The shipper: follows the spools of a store and hands their batches to a sender. Knows no MLflow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from argosy.holder import Holder
from argosy.tracking.batches import Batch, Owner, Shipped, is_late, next_batch, owner_of
from argosy.tracking.locking import locked
from argosy.tracking.repeats import Repeats

BATCHES_A_TURN = 20  # of one spool, before the others get theirs
SETTLE_S = 1.0


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
        self._repeats = Repeats()
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
        if size > 0 and spool not in self._sent:  # a first look without the lock: most were sent by earlier processes
            shipped = Shipped.load(spool, self._sender.uri)
            self._note_running(spool, shipped)
            self._sent[spool] = shipped.offset if shipped.offset == shipped.intent else -1
        return size > 0 and size != self._sent[spool]

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
        fresh = self._repeats.drop(spool, batch)
        shipped.run_id = self._sender.send(spool, owner, fresh, doubtful=doubtful)
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
        if not self._dead():
            return
        time.sleep(SETTLE_S)  # what a dead runner had started is being killed as well
        for spool in self._dead():
            with locked(spool.with_name(".shipping.lock"), wait=False) as held:
                shipped = Shipped.load(spool, self._sender.uri)
                if not held or not shipped.running or spool.stat().st_size != shipped.offset:
                    continue  # somebody has gone on with it
                self._sender.end(owner_of(spool), "KILLED")
                shipped.running = None
                shipped.save()
            del self._running[spool]

    def _dead(self) -> list[Path]:
        return [spool for spool, holder in self._running.items() if holder.is_dead()]
