"""Files and records to items, with what cannot be one left out and counted by reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from argosy.errors import InputError
from evals.formats.fields import subject_of
from evals.formats.format import At, Format, Record
from evals.formats.registry import find_format
from evals.items import AnyItem, BrokenItem, Item, Items


def read_items(
    path: Path,
    limit: int | None = None,
    format: str = "",
    *,
    lang: str = "",
    subject: str = "",
    encoding: str = "utf-8",
    index_from: int | None = None,
    name: str = "",
) -> Items:
    """Items of a file, at most the first `limit` of them.

    Args:
        format: name of a format; "": argosy's for JSONL, MMLU's for CSV.
        name: what ids begin with; "": the file's stem.
        lang, subject, index_from: what holds for all of its records (see At).

    Raises:
        InputError: the file is absent or cannot be read, its format is unknown, or it has no usable item.
    """
    found_format = _format(path, format)
    at = At(name or item_prefix(path), 0, lang, subject or subject_of(item_prefix(path)), index_from)
    try:
        found = parse_records(found_format.records(path, encoding), found_format, at, limit)
    except LookupError as error:
        raise InputError(f"encoding is {encoding!r}: {error}") from None
    if not found.items:
        hint = _hint(found, encoding)
        raise InputError(
            f"{path} has no usable item; lines left out: {dict(found.left_out) or 'none, it is empty'}{hint}"
        )
    return found


def item_prefix(path: Path) -> str:
    """What the ids of a file's items begin with: its stem, without a source path that is written into it."""
    return path.stem.rpartition("__")[2]


def parse_item(record: Record) -> Item:
    """The item of a record of argosy's own format.

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


def parse_records(
    records: Iterable[Record | BrokenItem], format: Format, at: At, limit: int | None = None
) -> Items:
    """Items of records, until there are `limit`; a second item of the same id is left out."""
    found = Items()
    seen = set()
    for number, record in enumerate(records):
        for item in _parse(record, format, replace(at, number=number)):
            if limit is not None and len(found.items) >= limit:
                return found
            if isinstance(item, BrokenItem):
                found.reject(at.file, number + 1, str(item))
            elif item.id in seen:
                found.reject(at.file, number + 1, "id is there twice")
            else:
                seen.add(item.id)
                found.items.append(item)
    return found


def _parse(record: Record | BrokenItem, format: Format, at: At) -> Iterable[AnyItem | BrokenItem]:
    """Items of a record, and a BrokenItem for each question of it that is none."""
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
    bytes_are_wrong = found.left_out["not JSON"] or found.left_out[f"not {encoding.upper()}"]
    return f"; if it is not {encoding.upper()}, say its `encoding` (such as gb18030)" if bytes_are_wrong else ""
