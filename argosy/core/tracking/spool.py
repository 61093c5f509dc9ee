"""The spool of a step: an append-only JSONL file, how its lines are written, and how they are read.

Kinds of lines: header, metrics, params, tags, artifact, model, model_metrics, model_tags, status. Each has
`kind` and `time` (ms since the epoch), by which MLflow knows a point that it is sent twice. Floats that JSON has no
word for are the strings "NaN", "Infinity" and "-Infinity"."""

import json
import math
import os
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.statistics.metric import Metric, from_records
from argosy.core.store.files import write_atomic

SPOOL = "spool.jsonl"
OF_THE_RUN = ("time/", "perf/", "memory/")  # before metrics that tell how a run went: two equal runs differ in them
HEADLINE = "headline/"  # before the metrics of MLflow alone, which sum others up
PIPELINES = ".pipelines"  # below the store: a directory with a spool for each pipeline run
PENDING_BYTES = 16 * 2**20  # of lines that a failing disk did not take, tried again with the next ones
Record = dict[str, Any]


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of the spool, newline included."""
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # a NaN or an infinity: rare, so only then each value is looked at
        values = {key: _word(value) for key, value in record["values"].items()}
        text = json.dumps({**record, "values": values}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _word(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode(line: bytes) -> Record | None:
    """The record of a line; None for one that is damaged (a disk that filled up in the middle of it)."""
    try:
        record: Record = json.loads(line)
        if record["kind"] in ("metrics", "model_metrics"):
            record["values"] = {key: float(value) for key, value in record["values"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return record


def read_from(spool: Path, offset: int) -> Iterator[tuple[int, Record | None]]:
    """Yield (offset after the line, record) of whole lines from an offset on; None for a damaged line."""
    with open(spool, "rb") as file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            if not line.endswith(b"\n"):
                return  # a torn line is not there yet
            yield offset, decode(line)


def _file(spool: str | Path) -> Path | None:
    path = Path(spool)
    return next((file for file in (path, path / SPOOL, path / "tracking" / SPOOL) if file.is_file()), None)


def kinds(spool: str | Path) -> dict[str, Metric]:
    """The kinds of its metrics, by name or pattern, that the step of a spool declares."""
    path = _file(spool)
    _, first = next(read_from(path, 0), (0, None)) if path else (0, None)
    return from_records((first or {}).get("kinds", ()))


def read(spool: str | Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of a spool without MLflow: {metric: [(step, value), ...]}, sorted by step.

    `spool` is the file, its `tracking` directory or the step's directory. Absent: no curves."""
    path = _file(spool)
    if path is None:
        return {}
    points: dict[str, dict[int, float]] = {}
    for _, record in read_from(path, 0):
        if record is not None and record["kind"] == "metrics":
            for key, value in record["values"].items():
                points.setdefault(key, {}).setdefault(record["step"], value)
    return {key: sorted(series.items()) for key, series in points.items()}


def spools(store: Path) -> list[Path]:
    """The spools of a store: of its nodes and of its pipeline runs."""
    found = []
    for parent in (store, store / PIPELINES):
        with suppress(OSError), os.scandir(parent) as entries:
            found += [Path(entry.path, "tracking", SPOOL) for entry in entries if entry.is_dir()]
    return found


@dataclass(frozen=True)
class Owner:
    """The node or pipeline run that a spool belongs to, from its first header.

    A step run by hand, without a header, is named by its directory."""

    node: str  # "" for the spool of a pipeline run itself
    part: str = ""
    step: str = ""
    digest: str = ""
    pipeline: str = ""
    line: str = "argosy"
    title: str = ""
    """name of its run, where that is not the node's"""
    time: int = 0
    id: str = ""
    """identity of the spool: what is computed again, elsewhere or anew, is a different run"""

    @property
    def name(self) -> str:
        """The name of its run."""
        if self.title:
            return self.title
        return f"{self.node}-{self.part}" if self.part else self.node or f"{self.line} {self.pipeline}"


def owner_of(spool: Path) -> Owner:
    """The owner of a spool that has at least one whole line."""
    _, first = next(read_from(spool, 0), (0, None))
    record = first or {}
    if record.get("kind") != "header":
        name = spool.parent.parent.name
        return Owner(node=name, digest=name, time=int(record.get("time", 0)))
    fields = {key: record[key] for key in Owner.__dataclass_fields__ if key in record}
    fields["line"] = fields.get("line") or "argosy"
    return Owner(**{"node": "", **fields})


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a spool that may have a writer, who stays its writer. Raises OSError: it cannot be written."""
    file = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(file).st_size
        whole = not size or os.pread(file, 1, size - 1) == b"\n"
        os.write(file, line if whole else b"\n" + line)
    finally:
        os.close(file)


class Appender:
    """Appends whole lines, each with one `write`. A failing disk costs one warning, never an exception.

    The last one to open the file is its writer: it goes on in a copy without a torn last line, which a killed writer or
    a full disk leaves. So one that lost its lease and does not know it yet writes to a file that nobody reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._warned: set[str] = set()
        if path.is_file():
            self._flush()

    def append(self, line: bytes) -> None:
        """Write one line (newline included), after those that a failing disk refused before."""
        self._pending.append(line)
        self._pending_bytes += len(line)
        self._flush()
        while self._pending_bytes > PENDING_BYTES:
            self._pending_bytes -= len(self._pending.popleft())
            self.warn(f"{self._path} still cannot be written: the oldest of what was logged is dropped")

    def _flush(self) -> None:
        try:
            if self._file is None:
                self._open()
            while self._pending:
                self._write(self._pending[0])
                self._pending_bytes -= len(self._pending.popleft())
        except OSError as error:
            self.warn(f"{self._path} cannot be written ({error.strerror}): what is logged waits in memory")

    def warn(self, message: str) -> None:
        """Warn once for each message."""
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, RuntimeWarning, stacklevel=4)

    def close(self) -> None:
        """Write what waits, flush to the disk and close; a later append opens the file again."""
        if self._pending:
            self._flush()
            if self._pending:
                self.warn(f"{self._path} still cannot be written: {len(self._pending)} records are lost")
        if self._file is not None:
            try:
                os.fsync(self._file)
                os.close(self._file)
            except OSError as error:
                self.warn(f"{self._path} cannot be flushed ({error.strerror})")
            self._file = None

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            whole = self._path.read_bytes()
            write_atomic(self._path, whole[: whole.rfind(b"\n") + 1])
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        start = os.fstat(self._file).st_size
        written = os.write(self._file, line)
        if written < len(line):  # the disk is nearly full: take the part back, so that the next line stays whole
            os.ftruncate(self._file, start)
            raise OSError(28, "no space left for a whole record")
