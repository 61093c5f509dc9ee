"""JSONL files between the steps: read with clear errors, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from argosy.documents.record import Document
from argosy.errors import InputError
from argosy.storage import temporary_of


def dump_line(record: Mapping[str, Any]) -> str:
    """One line of JSON; a lone surrogate (no UTF-8 form) is escaped instead of written."""
    line = json.dumps(record, ensure_ascii=False, default=str)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record, default=str)
    return line + "\n"


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a JSONL file that a step of this pipeline wrote.

    Raises:
        InputError: it is absent, or a line is not a JSON object (names file and line).
    """
    try:
        file = open(path, encoding="utf-8", newline="\n")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: run the step that writes it, or correct the path") from None
    with file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _parse(line, path, number)


def read_documents(directory: Path) -> Iterator[Document]:
    """Documents of all `*.jsonl` in `directory`, files in the order of their names.

    Raises:
        InputError: the directory has no such file, or a line is not a document.
    """
    paths = sorted(directory.glob("*.jsonl"))
    if not paths:
        raise InputError(f"{directory} has no *.jsonl: expected the `documents` directory of a data or clean step")
    for path in paths:
        for record in read_jsonl(path):
            try:
                yield Document.from_record(record)
            except KeyError as missing:
                raise InputError(f"{path}: a document has no {missing}; it needs id, text and channel") from None


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{path}:{number} is not valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}:{number} is a JSON {type(record).__name__}, expected an object")
    return record


class JsonlWriters:
    """Several JSONL files that appear together when the block ends without an error.

    Lines go to hidden temporary files of this process below `root`; a crash leaves only those, and the next
    holder of the step's directory removes them.
    """

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

    def write_all(self, name: str, records: Iterable[Mapping[str, Any]]) -> int:
        """Append records; makes the file also when there are none. Returns how many there were."""
        self.open(name)
        before = self.counts[name]
        for record in records:
            self.write(name, record)
        return self.counts[name] - before

    def finish(self, name: str) -> None:
        """Make the file `name` appear now, so that it stays even if the block fails; it takes no more lines."""
        if file := self._files.pop(name, None):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            self._temporary(name).replace(self._root / f"{name}.jsonl")

    def __enter__(self) -> JsonlWriters:
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
