"""Spools read for sending: whose they are, how far each was sent, and the next batch. Knows no MLflow."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from argosy.tracking.records import PIPELINES, SPOOL, Record, read_from

SHIPPED = "shipped.json"
BATCH_VALUES = 1000  # MLflow takes 1,000 metrics a request
BATCH_BYTES = 2**18  # of the spool a batch is made of, so that a request stays below MLflow's 1 MB


@dataclass(frozen=True)
class Owner:
    """Whose spool it is, from its first header. A step run by hand, without one, is named by its directory."""

    node: str  # "" for the spool of a pipeline run itself
    part: str = ""
    step: str = ""
    digest: str = ""
    pipeline: str = ""
    line: str = "argosy"
    time: int = 0

    @property
    def name(self) -> str:
        """How its run is called."""
        return f"{self.node}-{self.part}" if self.part else self.node or f"{self.line} {self.pipeline}"


def owner_of(spool: Path) -> Owner:
    """The owner of a spool that has at least one whole line."""
    _, first = next(read_from(spool, 0), (0, None))
    record = first or {}
    if record.get("kind") != "header":
        name = spool.parent.parent.name
        return Owner(node=name, digest=name, time=int(record.get("time", 0)))
    known = {key: record[key] for key in Owner.__dataclass_fields__ if key in record}
    known["line"] = known.get("line") or "argosy"
    return Owner(**{"node": "", **known})


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


def next_batch(spool: Path, start: int, end: int | None = None) -> Batch | None:
    """The records from `start`, at most to `end`: some 1,000 values, or one larger record; None when there is none.

    Records that need another spool to be sent first (model_metrics, model_tags) are never in a batch with others.
    """
    batch = Batch(start, start)
    values = 0
    for offset, record in read_from(spool, start, end):
        if record is None:
            batch.damaged += 1
        else:
            size = len(record.get("values", ()))
            full = values + size > BATCH_VALUES or offset - start > BATCH_BYTES
            if batch.records and (full or is_late(record) != is_late(batch.records[0])):
                return batch
            batch.records.append(record)
            values += size
        batch.end = offset
    return batch if batch.end > start else None


def is_late(record: Record) -> bool:
    """Whether the record is about something that another spool registers."""
    return record["kind"] in ("model_metrics", "model_tags", "reused")


@dataclass
class Shipped:
    """How far a spool was sent to one tracking server, in `shipped.json` beside it.

    `intent` is past `offset` when a batch was about to be sent: after a crash or a timeout nobody knows whether the
    records between the two arrived.
    """

    _SAVED: ClassVar = ("offset", "intent", "run_id", "running")
    path: Path
    target: str
    offset: int = 0
    intent: int = 0
    run_id: str = ""
    running: dict[str, Any] | None = None  # the process that said RUNNING last, until it said how it ended

    @classmethod
    def load(cls, spool: Path, uri: str) -> Shipped:
        """Read it; from the start for a server that the spool was never sent to, or a file that is damaged."""
        path = spool.with_name(SHIPPED)
        state = _read(path).get(target_name(uri), {})
        return cls(path, target_name(uri), **{key: state[key] for key in cls._SAVED if key in state})

    def fit(self, size: int) -> None:
        """Adapt to a spool of `size` bytes: one shorter than what was sent is another one, so all is doubtful."""
        if self.offset > size:
            self.offset, self.intent = 0, size
        self.intent = min(self.intent, size)

    def save(self) -> None:
        """Write atomically. Not flushed to the disk: after a power failure the server's history decides."""
        everything = _read(self.path)
        everything[self.target] = {key: getattr(self, key) for key in self._SAVED}
        temporary = self.path.with_name(f".{SHIPPED}.{os.getpid()}")
        temporary.write_text(json.dumps(everything))
        temporary.replace(self.path)


def target_name(uri: str) -> str:
    """A tracking URI's name in shipped.json: a hash, since a URI may hold a password."""
    return hashlib.sha256(uri.encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        state: dict[str, dict[str, Any]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def spools(store: Path) -> list[Path]:
    """The spools of a store: of its nodes and of its pipeline runs."""
    found = []
    for parent in (store, store / PIPELINES):
        try:
            with os.scandir(parent) as entries:
                found += [Path(entry.path, "tracking", SPOOL) for entry in entries if entry.is_dir()]
        except OSError:
            continue
    return found
