"""JSONL files: lines with a reason for each that is no record, and files written whole or not at all."""

import base64
import codecs
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar, cast

from argosy.data.schemas import Document, ParseError
from argosy.errors import InputError, StepError
from argosy.store.files import temporary_of

T = TypeVar("T")
JSONL = (".jsonl", ".jsonl.gz", ".jsonl.zst")
MOST_BYTES = 16 * 2**20  # of a record in a file of the user's
BLOCK = 2**20
_SHOWN = 1000  # bytes of a line that is too long, among the rejects


@dataclass(frozen=True, slots=True)
class Reject:
    """A piece of a file (line `line`, from 1) that is not a usable record."""

    file: str
    line: int
    reason: str
    raw: bytes
    value: str = ""
    """of the field that the reason names"""

    def to_record(self) -> dict[str, Any]:
        """Make the JSON object: the bytes as text where they are UTF-8, else as base64."""
        record: dict[str, Any] = {"file": self.file, "line": self.line, "reason": self.reason}
        record |= {"value": self.value} if self.value else {}
        try:
            return record | {"raw": self.raw.decode()}
        except UnicodeDecodeError:
            return record | {"raw_base64": base64.b64encode(self.raw).decode("ascii")}


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open the file's bytes, decompressed if it is .gz or .zst."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as file:
            yield cast("IO[bytes]", file)
    elif path.suffix.lower() == ".zst":
        import io

        import pyarrow as pa

        with pa.OSFile(str(path)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
            yield cast("IO[bytes]", io.BufferedReader(stream))
    else:
        with open(path, "rb") as file:
            yield file


def read_lines(
    path: Path, keep_blank: bool = False, encoding: str = "utf-8", most: int = MOST_BYTES
) -> Iterator[tuple[int, bytes, str]]:
    """Yield (line number from 1, the bytes, "" or the reason that they are unusable).

    Blank lines count in the numbers, but come only with `keep_blank`. A line of more than `most` bytes (0: no limit) is
    read in blocks, and only its beginning is kept. Raises InputError: a compressed file is damaged or cut off;
    StepError: the disk fails."""
    with open_binary(path) as stream:
        number = 0
        try:
            while raw := stream.readline(most + 1 if most else -1):
                number += 1
                line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                if most and len(raw) > most:
                    while not raw.endswith(b"\n") and (raw := stream.readline(BLOCK)):
                        pass
                    yield number, line[:_SHOWN], f"longer than {most} bytes"
                elif keep_blank or line.strip():
                    yield number, line, _problem(line, encoding)
        except (EOFError, zlib.error, OSError) as error:
            raise unreadable(path, error, number) from error


def unreadable(path: Path, error: Exception, read: int) -> InputError | StepError:
    """Make the error for a file that cannot be read on after `read` records: it is damaged, or its disk fails."""
    if isinstance(error, OSError) and error.errno is not None:
        return StepError(f"{path} cannot be read after {read} records ({error}): run again, or look after its disk")
    return InputError(f"{path} is damaged or cut off: {read} records could be read before the damage ({error}). Copy "
                      "or make it anew, or take it out")


def _problem(line: bytes, encoding: str) -> str:
    if b"\0" in line:
        return "NUL byte (not a text file, or UTF-16)"
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return f"invalid {encoding.upper()}"
    return ""


def parse_or_reject(
    path: Path, parse: Callable[[int, dict[str, Any]], T], label: str = "", encoding: str = "utf-8",
    most: int = MOST_BYTES
) -> Iterator[T | Reject]:
    """Parse each line of a JSONL file, compressed or not; one that is no record comes as a reject.

    Args:
        parse: (line number from 1, object) -> a record; raises ParseError with the reason where it is none.
        label: the file's name in rejects; "" is its own.
        most: bytes of a line, as in read_lines."""
    for number, raw, problem in read_lines(path, encoding=encoding, most=most):
        try:
            if problem:
                raise ParseError(problem)
            yield parse(number, _object(raw.decode(encoding)))
        except ParseError as error:
            yield Reject(label or path.name, number, str(error), raw, error.value)


def parse_lines(path: Path, parse: Callable[[int, dict[str, Any]], T], left_out: Counter[str]) -> Iterator[T]:
    """Parse each line of a JSONL file, compressed or not.

    `parse`: (line number from 1, object) -> a record; raises ParseError with the reason where it is none.
    `left_out`: reasons of the lines that are no records, counted here."""
    for line in parse_or_reject(path, parse):
        if isinstance(line, Reject):
            left_out[line.reason] += 1
        else:
            yield line


def _object(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise ParseError("invalid JSON") from None
    if not isinstance(record, dict):
        raise ParseError("not a JSON object")
    return record


def dump_line(record: Mapping[str, Any]) -> str:
    """Return one line of JSON; a lone surrogate (no UTF-8 form) is escaped instead of written."""
    line = json.dumps(record, ensure_ascii=False, default=str)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record, default=str)
    return line + "\n"


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSONL file that a step of this pipeline wrote.

    Raises InputError: it is absent, or a line is not a JSON object (names file and line)."""
    if not path.exists():
        raise InputError(f"{path} does not exist: run the step that writes it, or correct the path")
    for record in parse_or_reject(path, lambda _, record: record, most=0):
        if isinstance(record, Reject):
            raise InputError(f"{path}:{record.line} is not a record: {record.reason}")
        yield record


def read_documents(directory: Path) -> Iterator[Document]:
    """Yield the documents of all `*.jsonl` in `directory`, files in the order of their names.

    Raises InputError: the directory has no such file, or a line is not a document."""
    paths = sorted(directory.glob("*.jsonl"))
    if not paths:
        raise InputError(f"{directory} has no *.jsonl: expected the `documents` directory of a data or clean step")
    for path in paths:
        for record in read_jsonl(path):
            try:
                yield Document.from_record(record)
            except KeyError as missing:
                raise InputError(f"{path}: a document has no {missing}; it needs id, text and channel") from None


class JsonlWriters:
    """Several JSONL files that appear together when the block ends without an error.

    Lines go to hidden temporary files of this process below `root`; a crash leaves only those, and the next
    holder of the step's directory removes them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, IO[str]] = {}
        self.counts: dict[str, int] = {}

    def open(self, name: str) -> None:
        """Make the file `name` (relative to the root, without ".jsonl") even if nothing is written to it."""
        if name not in self._files:
            path = self._temporary(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[name] = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (closed by __exit__)
            self.counts[name] = 0

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Append one record to `<root>/<name>.jsonl`."""
        self.open(name)
        self._files[name].write(dump_line(record))
        self.counts[name] += 1

    def write_all(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records; makes the file also when there are none."""
        self.open(name)
        for record in records:
            self.write(name, record)

    def finish(self, name: str) -> None:
        """Make the file `name` appear now, so that it stays even if the block fails; it takes no more lines."""
        if file := self._files.pop(name, None):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            self._temporary(name).replace(self._root / f"{name}.jsonl")

    def __enter__(self) -> "JsonlWriters":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._files):
            if kind is None:
                self.finish(name)
            else:
                self._files.pop(name).close()
                self._temporary(name).unlink(missing_ok=True)

    def _temporary(self, name: str) -> Path:
        return temporary_of(self._root / f"{name}.jsonl")
