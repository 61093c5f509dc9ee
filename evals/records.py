"""Records of benchmark files: what a file is cut into before its fields are read (evals/fields.py)."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.corpus.data.jsonl import Reject, parse_or_reject
from evals.items import BrokenItem

Record = Mapping[str, Any]
Records = Iterator[Record | BrokenItem]
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


def json_lines(path: Path, encoding: str = "utf-8") -> Records:
    """Read the objects of a JSONL file; lines that are none as BrokenItem."""
    read_bytes(path, 2)
    for line in parse_or_reject(path, lambda _, record: record, encoding=encoding):
        yield BrokenItem(line.reason) if isinstance(line, Reject) else line


def json_list(path: Path, encoding: str = "utf-8", key: str = "") -> Records:
    """Read the objects of a JSON file that is a list, or an object with a list in `key`.

    Raises InputError: the file is no such JSON."""
    try:
        data = json.loads(read_bytes(path).removeprefix(_BOM).decode(encoding))
    except ValueError as error:
        raise InputError(f"{path} is not JSON in {encoding} ({error}); mend it, or say its `encoding`") from None
    found = data.get(key) if key and isinstance(data, dict) else data
    if not isinstance(found, list):
        raise InputError(f"{path} is not a JSON list{f' or an object with one in {key!r}' if key else ''}")
    yield from (record if isinstance(record, dict) else BrokenItem("not a JSON object") for record in found)


def csv_rows(path: Path, encoding: str = "utf-8") -> Iterator[list[str] | BrokenItem]:
    """Read the rows of a CSV; those with bytes that are not of `encoding` as BrokenItem."""
    text = read_bytes(path).removeprefix(_BOM).decode(encoding, errors="surrogateescape")
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            readable = not any("\udc80" <= char <= "\udcff" for field in row for char in field)
            yield row if readable else BrokenItem(f"invalid {encoding.upper()}")
    except csv.Error as error:
        yield BrokenItem(f"the rest of the file is no CSV ({error})")


def csv_records(path: Path, encoding: str = "utf-8", needs: Sequence[str] = ()) -> Records:
    """Read the rows of a CSV by its header's names, in lower case.

    Raises InputError: the header lacks one of `needs`."""
    rows = csv_rows(path, encoding)
    first = next(rows, [])
    header = [] if isinstance(first, BrokenItem) else [name.strip().lower() for name in first]
    if absent := [name for name in needs if name not in header]:
        raise InputError(f"{path} has no column {absent[0]!r}; its header is {', '.join(header) or 'empty'}")
    for row in rows:
        if isinstance(row, BrokenItem):
            yield row
        elif any(field.strip() for field in row):
            fits = len(row) == len(header)
            yield dict(zip(header, row, strict=True)) if fits else BrokenItem("row has another number of columns")


def with_labels(path: Path, encoding: str, field: str = "label") -> Records:
    """Read the lines of `dev.jsonl` with those of `dev-labels.lst` as `field`, where such a file is beside it.

    Raises InputError: the two have different numbers of lines."""
    file = path.with_name(f"{path.stem}-labels.lst")
    records = json_lines(path, encoding)
    if not file.is_file():
        yield from records
        return
    labels, lines = read_bytes(file).decode("utf-8-sig").split(), 0
    for record in records:
        label = labels[lines] if lines < len(labels) else None
        lines += 1
        yield record if isinstance(record, BrokenItem) else {field: label, **record}
    if lines != len(labels):
        raise InputError(f"{path} has {lines} lines and {file.name} {len(labels)}: they are not of one split")


def read_bytes(path: Path, size: int = -1) -> bytes:
    """Read the file's bytes, or the first `size` of them.

    Raises InputError: it is UTF-16, which no format here is in."""
    with open(path, "rb") as file:
        data = file.read(size)
    if data.startswith(_UTF16):
        raise InputError(f"{path} is UTF-16; save it as UTF-8")
    return data
