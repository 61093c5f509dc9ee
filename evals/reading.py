"""Reading of benchmark files into items; a record that is none is left out and counted by reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from argosy.errors import InputError
from evals.formats import At, Format, find_format
from evals.items import AnyItem, BrokenItem, Item, Items
from evals.records import Record


def read_items(
    path: Path, limit: int | None = None, format: str = "", *, lang: str = "", subject: str = "",
    encoding: str = "utf-8", index_from: int | None = None, name: str = "",
) -> Items:  # fmt: skip
    """Read the items of a file, at most the first `limit` of them.

    Args:
        format: name of a format; "": argosy's for JSONL, MMLU's for CSV.
        name: the beginning of ids; "": the file's stem.
        lang, subject, index_from: of all records (see At).

    Raises:
        InputError: the file is absent or cannot be read, its format is unknown, or it has no usable item.
    """
    reader = _format(path, format)
    stem = item_prefix(path)
    subject = subject or re.sub(r"[_-](test|dev|val|validation|train)$", "", stem)  # abstract_algebra_test
    try:
        at = At(name or stem, 0, lang, subject, index_from)
        found = parse_records(reader.records(path, encoding), reader, at, limit)
    except LookupError as error:
        raise InputError(f"encoding is {encoding!r}: {error}") from None
    if not found.items:
        raise InputError(f"{path} has no usable item; lines left out: {dict(found.left_out) or 'none, it is empty'}"
                         f"{_hint(found, encoding)}")  # fmt: skip
    return found


def item_prefix(path: Path) -> str:
    """Take the beginning of the ids of a file's items: its stem, without a source path that is written into it."""
    return path.stem.rpartition("__")[2]


def parse_item(record: Record) -> Item:
    """Read the item of a record of argosy's own format.

    Raises:
        BrokenItem: a field is absent or wrong, or it has no options; says which.
    """
    (item,) = find_format("argosy").parse(record, At("record"))
    if not isinstance(item, Item):
        raise BrokenItem("no choices")
    return item


def _format(path: Path, name: str) -> Format:
    try:
        found = find_format(name, path.suffix)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if path.suffix not in found.suffixes:
        raise InputError(f"{path}: format {found.name} is read from {', '.join(found.suffixes)}")
    if not path.is_file():
        raise InputError(f"{path} does not exist; a data step writes benchmark/en.jsonl and benchmark/zh.jsonl: give "
                         "its directory (argosy evaluate --data DIR)")
    return found


def parse_records(records: Iterable[Record | BrokenItem], format: Format, at: At, limit: int | None = None) -> Items:
    """Read the items of records, until there are `limit`; a second item of the same id is left out."""
    found, ids = Items(), set()
    for number, record in enumerate(records):
        for item in _parse(record, format, replace(at, number=number)):
            if limit is not None and len(found.items) >= limit:
                return found
            if isinstance(item, BrokenItem):
                found.reject(at.file, number + 1, str(item))
            elif item.id in ids:
                found.reject(at.file, number + 1, "id is there twice")
            else:
                ids.add(item.id)
                found.items.append(item)
    return found


def _parse(record: Record | BrokenItem, format: Format, at: At) -> Iterable[AnyItem | BrokenItem]:
    """Read the items of a record, and a BrokenItem for each question of it that is none."""
    if isinstance(record, BrokenItem):
        return [record]
    found: list[AnyItem | BrokenItem] = []
    try:
        found += format.parse(record, at)
    except BrokenItem as reason:
        found.append(reason)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):  # a field of another kind
        found.append(BrokenItem(f"fields are not as format {format.name} has them"))
    return found


def _hint(found: Items, encoding: str) -> str:
    bytes_are_wrong = found.left_out["invalid JSON"] or found.left_out[f"invalid {encoding.upper()}"]
    return f"; if it is not {encoding.upper()}, say its `encoding` (such as gb18030)" if bytes_are_wrong else ""
