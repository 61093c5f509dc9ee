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
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeVar, cast

from argosy.core.errors import InputError, StepError
from argosy.core.store.files import json_text, temporary_of
from argosy.core.store.remote import open_file, open_zstd
from argosy.corpus.data.schemas import Document, ParseError

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
    """value of the field that the reason names"""
    unit: str = "line"
    """Unit that `line` counts: lines, rows or records from 1, or bytes from 0."""
    fault: bool = True
    """Whether something is wrong with it; a whole record that holds no text, such as an image, has no fault."""

    def to_record(self) -> dict[str, Any]:
        """Make the JSON object: the bytes as text where they are UTF-8, else as base64."""
        record: dict[str, Any] = {"file": self.file, self.unit: self.line, "reason": self.reason}
        record |= {"value": self.value} if self.value else {}
        try:
            return record | {"raw": self.raw.decode()}
        except UnicodeDecodeError:
            return record | {"raw_base64": base64.b64encode(self.raw).decode("ascii")}


@contextmanager
def open_binary(path: Path | str) -> Iterator[IO[bytes]]:
    """Open the bytes of a path or URI, decompressed if its name ends in .gz or .zst."""
    name = str(path).lower()
    with open_file(str(path)) as raw:
        if name.endswith(".gz"):
            with gzip.open(raw, "rb") as file:
                yield cast("IO[bytes]", file)
        elif name.endswith(".zst"):
            with open_zstd(raw, str(path), BLOCK) as file:
                yield file
        else:
            yield raw


class Line(NamedTuple):
    """A line: its number from 1, its first byte, its bytes, its text, and "" or the reason that it is unusable."""

    number: int
    offset: int
    raw: bytes
    text: str
    problem: str


def lines(stream: IO[bytes], *, keep_blank: bool = False, encoding: str = "utf-8", most: int = MOST_BYTES,
          first: int = 1, offset: int = 0, end: int = 0) -> Iterator[Line]:
    """Yield the lines of a stream that stands at byte `offset`, at line `first`, up to byte `end` (0: its end).

    Blank lines count in the numbers, but come only with `keep_blank`. A line of more than `most` bytes (0: no limit) is
    read in blocks, and only its beginning is kept."""
    number, limit = first - 1, most + 1 if most else -1
    while (not end or offset < end) and (raw := stream.readline(limit)):
        number += 1
        at, offset = offset, offset + len(raw)
        line = raw.removeprefix(codecs.BOM_UTF8) if at == 0 else raw
        if most and len(raw) > most:
            while not raw.endswith(b"\n") and (raw := stream.readline(BLOCK)):
                offset += len(raw)
            yield Line(number, at, line[:_SHOWN], "", f"longer than {most} bytes")
        elif keep_blank or (line and not line.isspace()):
            yield _line(number, at, line, encoding)


def _line(number: int, offset: int, raw: bytes, encoding: str) -> Line:
    if b"\0" in raw:
        return Line(number, offset, raw, "", "NUL byte (not a text file, or UTF-16)")
    try:
        return Line(number, offset, raw, raw.decode(encoding), "")
    except UnicodeDecodeError:
        return Line(number, offset, raw, "", f"invalid {encoding.upper()}")


class Damaged(Exception):
    """A file cannot be read on: the reason, what its library says, and the beginning of what is broken."""

    def __init__(self, reason: str, detail: str = "", raw: bytes = b"") -> None:
        super().__init__(reason)
        self.reason, self.detail, self.raw = reason, detail, raw


DAMAGE = (EOFError, zlib.error, OSError)


def read_lines(path: Path, encoding: str = "utf-8", most: int = MOST_BYTES) -> Iterator[Line]:
    """Yield the lines of a file that are not blank, as `lines`. Raises InputError: a compressed file is damaged or cut
    off; StepError: the disk fails."""
    number = 0
    with open_binary(path) as stream:
        try:
            for line in lines(stream, encoding=encoding, most=most):
                number = line.number
                yield line
        except DAMAGE as error:
            raise unreadable(path, error, number) from error


def unreadable(path: Path, error: Exception, read: int) -> InputError | StepError:
    """Make the error for a file that cannot be read on after `read` records: it is damaged, or its disk fails."""
    if isinstance(error, OSError) and error.errno is not None:
        return StepError(f"{path} cannot be read after {read} records ({error}): run again, or look after its disk")
    return InputError(f"{path} is damaged or cut off: {read} records could be read before the damage ({error}). Copy "
                      "or make it anew, or take it out")


def parse_or_reject(path: Path, parse: Callable[[int, dict[str, Any]], T], encoding: str = "utf-8",
                    most: int = MOST_BYTES) -> Iterator[T | Reject]:
    """Parse each line of a JSONL file, compressed or not; one that is no record comes as a reject.

    Args:
        parse: (line number from 1, object) -> a record; raises ParseError with the reason where it is none.
        most: bytes of a line, as in read_lines."""
    for number, _, raw, text, problem in read_lines(path, encoding=encoding, most=most):
        try:
            if problem:
                raise ParseError(problem)
            yield parse(number, parse_object(text))
        except ParseError as error:
            yield Reject(path.name, number, str(error), raw, error.value)


def parse_lines(path: Path, parse: Callable[[int, dict[str, Any]], T], left_out: Counter[str]) -> Iterator[T]:
    """Parse each line of a JSONL file, compressed or not. `parse`: (line number from 1, object) -> a record; raises
    ParseError with the reason where it is none. `left_out`: reasons of the lines that are no records, counted here."""
    for line in parse_or_reject(path, parse):
        if isinstance(line, Reject):
            left_out[line.reason] += 1
        else:
            yield line


def _no_json(word: str) -> None:
    raise ParseError("NaN or Infinity, which JSON does not have", word)


_PARSER = json.JSONDecoder(parse_constant=_no_json)


def check_finite(value: Any, text: str = "NaN") -> None:
    """Check that parsed JSON has no NaN and no infinity, for which JSON has no word. `text`: what it was parsed from.
    Raises ParseError: it has one."""
    if "NaN" in text or "Infinity" in text:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in parts:
            check_finite(part)
        if isinstance(value, float) and not isfinite(value):
            _no_json(str(value))


def parse_object(text: str) -> dict[str, Any]:
    """Parse the JSON object in a line. Raises ParseError: it holds none."""
    try:
        record = _PARSER.decode(text)
    except (ValueError, RecursionError):
        raise ParseError("invalid JSON") from None
    if not isinstance(record, dict):
        raise ParseError("not a JSON object")
    return record


def dump_line(record: Mapping[str, Any]) -> str:
    """Return one line of JSON; a lone surrogate (no UTF-8 form) is escaped instead of written, a NaN is null."""
    line = json_text(record, default=str)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json_text(record, default=str, ensure_ascii=True)
    return line + "\n"


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSONL file that a step of this pipeline wrote. Raises InputError: it is absent, or a line
    is not a JSON object (names file and line)."""
    if not path.exists():
        raise InputError(f"{path} does not exist: run the step that writes it, or correct the path")
    for record in parse_or_reject(path, lambda _, record: record, most=0):
        if isinstance(record, Reject):
            raise InputError(f"{path}:{record.line} is not a record: {record.reason}")
        yield record


def read_documents(directory: Path) -> Iterator[Document]:
    """Yield the documents of all `*.jsonl` in `directory`, files in the order of their names. Raises InputError: the
    directory has no such file, or a line is not a document."""
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for name in list(self._files):
            if kind is None:
                self.finish(name)
            else:
                self._files.pop(name).close()
                self._temporary(name).unlink(missing_ok=True)

    def _temporary(self, name: str) -> Path:
        return temporary_of(self._root / f"{name}.jsonl")
