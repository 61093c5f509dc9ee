"""The shipper: reads the spools of a store batch by batch and hands them to a sender. Knows no MLflow.

Each record is sent at least once, after a crash or a timeout again; the sender sees to it that one sent twice stands
once. `shipped.json` beside a spool has the offset up to which a server has acknowledged it."""

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from argosy.core.store.files import read_record, write_atomic
from argosy.core.store.lease import Holder
from argosy.core.tracking.spool import Owner, Record, owner_of, read_from
from argosy.core.tracking.tracker import end_run, holder_of

SHIPPED = "shipped.json"
BATCH_VALUES = 1000  # MLflow takes 1,000 metrics a request
BATCH_BYTES = 2**18  # of the spool a batch is made of, so that a request stays below MLflow's 1 MB
BATCHES_A_TURN = 20  # of one spool, before the others get theirs
REFUSED_S = 60.0  # until a spool that was refused has its next turn
DYING_S = 1.0  # a dead runner's steps are being killed as well


class Unavailable(Exception):
    """The tracking server did not take something now: try again later. The message says why, in a line."""


class Refused(Unavailable):
    """The tracking server refuses one spool, such as that of a deleted experiment; it may take the others."""


@contextlib.contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock file `path`; yields whether it is held. A killed holder's lock is free at once.

    Where the file system has no locks or cannot be written it yields True: two processes that send the same do no
    harm, none that sends would."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
        except OSError:
            held = True
        yield held
    finally:
        os.close(file)


@dataclass
class Batch:
    """Consecutive records of a spool between two offsets."""

    start: int
    end: int
    records: list[Record] = field(default_factory=list)
    damaged: int = 0

    def of(self, kind: str) -> list[Record]:
        """Its records of one kind, in order."""
        return [record for record in self.records if record["kind"] == kind]

    @property
    def is_late(self) -> bool:
        """Whether its records are about something that another spool registers."""
        return bool(self.records) and _is_late(self.records[0])


def next_batch(spool: Path, start: int) -> Batch | None:
    """The records from `start`: some 1,000 values, or one larger record; None when there is none.

    Records that need another spool to be sent first are never in a batch with others."""
    batch = Batch(start, start)
    values = 0
    for offset, record in read_from(spool, start):
        if record is None:
            batch.damaged += 1
        else:
            size = len(record.get("values", ()))
            full = values + size > BATCH_VALUES or offset - start > BATCH_BYTES
            if batch.records and (full or _is_late(record) != batch.is_late):
                return batch
            batch.records.append(record)
            values += size
        batch.end = offset
    return batch if batch.end > start else None


def _is_late(record: Record) -> bool:
    return record["kind"] in ("model_metrics", "model_tags")


@dataclass
class Shipped:
    """The offset up to which a tracking server has a spool, in `shipped.json` beside it."""

    _SAVED: ClassVar = ("offset", "run_id", "running", "spool")
    path: Path
    target: str
    offset: int = 0
    run_id: str = ""
    spool: str = ""  # its id
    running: dict[str, Any] | None = None  # the process that said RUNNING last, until a final status

    @classmethod
    def load(cls, spool: Path, uri: str) -> "Shipped":
        """Read it; from the start for a server that the spool was never sent to, or where the file is damaged."""
        path = spool.with_name(SHIPPED)
        state = read_record(path).get(target_name(uri), {})
        shipped = cls(path, target_name(uri), **{key: state[key] for key in cls._SAVED if key in state})
        known, shipped.spool = shipped.spool, owner_of(spool).id
        if shipped.offset > spool.stat().st_size or known not in ("", shipped.spool):  # another one took its place
            shipped.offset = 0
        return shipped

    def save(self) -> None:
        """Write atomically. Not flushed to the disk: after a power failure some is sent again."""
        everything = read_record(self.path)
        everything[self.target] = {key: getattr(self, key) for key in self._SAVED}
        write_atomic(self.path, json.dumps(everything), durable=False)


def target_name(uri: str) -> str:
    """A tracking URI's name in shipped.json: a hash, since a URI may hold a password."""
    return hashlib.sha256(uri.encode()).hexdigest()[:16]


def unsent(spools: Iterable[Path], uri: str) -> tuple[int, int]:
    """Count the records that the server at `uri` does not have yet, and the spools that they are of."""
    counts = [sum(1 for _ in read_from(spool, Shipped.load(spool, uri).offset)) for spool in spools if spool.is_file()]
    return sum(counts), sum(count > 0 for count in counts)


class Sender(Protocol):
    """The destination of batches."""

    uri: str

    def send(self, spool: Path, owner: Owner, batch: Batch) -> str:
        """Send a batch; returns the id of its run. A batch that is sent again changes nothing. Raises Unavailable:
        nothing, a part or all of it arrived."""
        ...


class Shipper:
    """Sends the records of spools, over crashes of this process and of the server.

    Args:
        find: lists the spools to follow; called at each pass, since nodes appear.
        sender: takes the batches."""

    def __init__(self, find: Callable[[], list[Path]], sender: Sender) -> None:
        self._find = find
        self._sender = sender
        self._running: dict[Path, Holder] = {}
        self._sent: dict[Path, int] = {}  # size of a spool that had nothing left to send
        self._retry_at: dict[Path, float] = {}  # when a spool that was refused has its next turn
        self.refused: dict[Path, str] = {}  # why
        self.look_s = 0.0  # cost of finding out that nothing is new

    def sweep(self, *, patient: bool = True) -> bool:
        """One turn for each spool; True when nothing is left, but for what is in `refused`.

        Records about models go last, so that the spools that register the models have gone before. `patient`: leave
        spools alone that were refused within the last minute. Raises Unavailable: the server; progress is saved."""
        started = time.monotonic()
        pending = [spool for spool in self._find()
                   if (not patient or self._retry_at.get(spool, 0) <= started) and self._grew(spool)]
        self.look_s = time.monotonic() - started
        late = [spool for spool in pending if not self._turn_of(spool, late=False)]
        done = [self._turn_of(spool, late=True) for spool in late]
        return all(done)

    def _turn_of(self, spool: Path, *, late: bool) -> bool:
        """Give a spool its turn; True when it has no more to send, or cannot be sent though others can."""
        try:
            done = self._turn(spool, late=late)
        except Unavailable as trouble:
            if not isinstance(trouble, Refused):
                raise
            reason = str(trouble)
        except OSError as error:
            reason = f"{spool.parent} cannot be used: {error.strerror}"
        else:
            self.refused.pop(spool, None)
            return done
        self.refused[spool] = reason
        self._retry_at[spool] = time.monotonic() + REFUSED_S
        return True

    def _grew(self, spool: Path) -> bool:
        try:
            size = spool.stat().st_size
        except OSError:
            return False
        if size > 0 and spool not in self._sent:  # a first look without the lock: most were sent by earlier processes
            shipped = Shipped.load(spool, self._sender.uri)
            self._note_running(spool, shipped)
            self._sent[spool] = shipped.offset
        return size > 0 and size != self._sent[spool]

    def _turn(self, spool: Path, *, late: bool) -> bool:
        """Send some batches of a spool; True when it has no more (or another shipper is at it)."""
        with locked(spool.with_name(".shipping.lock"), wait=False) as held:
            if not held:
                return True
            size = spool.stat().st_size
            shipped = Shipped.load(spool, self._sender.uri)
            self._note_running(spool, shipped)
            for _ in range(BATCHES_A_TURN):
                batch = next_batch(spool, shipped.offset)
                if batch is None:
                    self._sent[spool] = size
                    return True
                if batch.is_late and not late:
                    return False
                shipped.run_id = self._sender.send(spool, owner_of(spool), batch)
                shipped.offset = batch.end
                for record in batch.of("status"):
                    shipped.running = record.get("holder")
                self._note_running(spool, shipped)
                shipped.save()
        return False

    def _note_running(self, spool: Path, shipped: Shipped) -> None:
        self._running.pop(spool, None)
        if holder := holder_of({"holder": shipped.running}):
            self._running[spool] = holder

    def end_dead(self) -> bool:
        """Write the status KILLED to spools whose process is gone without a word (`kill -9`, out of memory); whether
        there are such spools, which are to be sent then."""
        if not self._dead():
            return False
        time.sleep(DYING_S)
        dead = self._dead()
        for spool in dead:
            del self._running[spool]
            with (contextlib.suppress(FileNotFoundError),  # somebody removed the step's directory
                  locked(spool.with_name(".shipping.lock"), wait=False) as held):  # fmt: skip
                if held and spool.stat().st_size == Shipped.load(spool, self._sender.uri).offset:
                    end_run(spool.parent, "KILLED")
        return bool(dead)

    def _dead(self) -> list[Path]:
        return [spool for spool, holder in self._running.items() if holder.is_dead()]
