"""What a format is, and how files are cut into records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from argosy.errors import InputError
from evals.items import AnyItem, BrokenItem

Record = Mapping[str, Any]
Records = Iterator[Record | BrokenItem]

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class At:
    """Where a record stands, and what the task says of all of its records.

    Attributes:
        file: name that ids begin with: the file's, or the dataset's split.
        number: of the record in its file, from 0.
        lang: of the items; "" where the format decides.
        subject: of the items; "" where the format decides.
        index_from: 0 or 1 where the task says what its numbers begin with; None: as the format has it.
    """

    file: str
    number: int = 0
    lang: str = ""
    subject: str = ""
    index_from: int | None = None

    @property
    def id(self) -> str:
        """For items that have none of their own."""
        return f"{self.file}/{self.number}"


class Format:
    """Base of formats. `parse` gives the items of one record, or raises BrokenItem with the reason it is none."""

    name: ClassVar[str] = ""
    lang: ClassVar[str] = "en"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Records of a file: a line of JSONL, an entry of a JSON list, a row of a CSV with a header."""
        if path.suffix == ".csv":
            return csv_records(path, encoding)
        return json_list(path, encoding) if path.suffix == ".json" else json_lines(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Items of a record.

        Raises:
            BrokenItem: a field is absent or wrong; says which.
        """
        raise NotImplementedError


def json_lines(path: Path, encoding: str = "utf-8") -> Records:
    """Objects of a JSONL file; lines that are none as BrokenItem."""
    for number, line in enumerate(read_bytes(path).split(b"\n")):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode(encoding))
        except ValueError:  # also of bytes that are not of this encoding
            yield BrokenItem("not JSON")
            continue
        yield record if isinstance(record, dict) else BrokenItem("not a JSON object")


def json_list(path: Path, encoding: str = "utf-8", key: str = "") -> Records:
    """Objects of a JSON file that is a list, or an object with a list in `key`.

    Raises:
        InputError: the file is no such JSON.
    """
    try:
        data = json.loads(read_bytes(path).removeprefix(b"\xef\xbb\xbf").decode(encoding))
    except ValueError as error:
        raise InputError(f"{path} is not JSON in {encoding} ({error}); mend it, or say its `encoding`") from None
    found = data.get(key) if key and isinstance(data, dict) else data
    if not isinstance(found, list):
        raise InputError(f"{path} is not a JSON list{f' or an object with one in {key!r}' if key else ''}")
    for record in found:
        yield record if isinstance(record, dict) else BrokenItem("not a JSON object")


def csv_rows(path: Path, encoding: str = "utf-8") -> Iterator[list[str] | BrokenItem]:
    """Rows of a CSV; those with bytes that are not of `encoding` as BrokenItem."""
    text = read_bytes(path).removeprefix(b"\xef\xbb\xbf").decode(encoding, errors="surrogateescape")
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            readable = not any("\udc80" <= char <= "\udcff" for field in row for char in field)
            yield row if readable else BrokenItem(f"not {encoding.upper()}")
    except csv.Error as error:
        yield BrokenItem(f"the rest of the file is no CSV ({error})")


def csv_records(path: Path, encoding: str = "utf-8", needs: Sequence[str] = ()) -> Records:
    """Rows of a CSV by its header's names, in lower case.

    Raises:
        InputError: the header lacks one of `needs`.
    """
    rows = csv_rows(path, encoding)
    first = next(rows, [])
    header = [] if isinstance(first, BrokenItem) else [name.strip().lower() for name in first]
    absent = [name for name in needs if name not in header]
    if absent:
        raise InputError(f"{path} has no column {absent[0]!r}; its header is {', '.join(header) or 'empty'}")
    for row in rows:
        if isinstance(row, BrokenItem):
            yield row
        elif any(field.strip() for field in row):
            fits = len(row) == len(header)
            yield dict(zip(header, row, strict=True)) if fits else BrokenItem("row has another number of columns")


def read_bytes(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        InputError: it is UTF-16, which no format here is in.
    """
    data = path.read_bytes()
    if data.startswith(_UTF16):
        raise InputError(f"{path} is UTF-16; save it as UTF-8")
    return data
