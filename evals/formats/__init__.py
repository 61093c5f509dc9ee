"""Formats of benchmark files: their base class, and the scan that finds them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from argosy.errors import InputError
from argosy.plugins import classes, pick
from evals.items import AnyItem
from evals.records import Record, Records, csv_records, json_lines, json_list


@dataclass(frozen=True)
class At:
    """The place of a record, and the settings of its task that hold for all records."""

    file: str
    """Name that ids begin with: the file's, or the dataset's split."""
    number: int = 0
    """Place of the record in its file, from 0."""
    lang: str = ""
    """Language of the items; "" where the format decides."""
    subject: str = ""
    """Subject of the items; "" where the format decides."""
    index_from: int | None = None
    """First number of answers that are numbers; None: the format's."""

    @property
    def id(self) -> str:
        """The id of an item that has none in its record."""
        return f"{self.file}/{self.number}"


class Format:
    """Base of formats."""

    name: ClassVar[str] = ""
    lang: ClassVar[str] = "en"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def records(self, path: Path, encoding: str = "utf-8") -> Records:
        """Cut a file into records: a line of JSONL, an entry of a JSON list, a row of a CSV with a header."""
        if path.suffix == ".csv":
            return csv_records(path, encoding)
        return json_list(path, encoding) if path.suffix == ".json" else json_lines(path, encoding)

    def parse(self, record: Record, at: At) -> Iterable[AnyItem]:
        """Read the items of one record.

        Raises:
            BrokenItem: a field is absent or wrong; says which.
        """
        raise NotImplementedError


BY_SUFFIX = {".jsonl": "argosy", ".csv": "mmlu"}  # where a task names no format


@cache
def registered() -> dict[str, Format]:
    """Find every format by its name."""
    found = classes(sys.modules[__name__], "formats", lambda value: issubclass(value, Format))
    return {name: value() for name, value in found.items()}


def find_format(name: str, suffix: str = "") -> Format:
    """Look up a format by its name, or without one by the suffix of the file.

    Raises:
        InputError: there is none (names the nearest, or the known suffixes).
    """
    name = name or BY_SUFFIX.get(suffix, "")
    if not name:
        raise InputError(f"items are read from {', '.join(BY_SUFFIX)}; for another suffix than these say `format`")
    return pick(name, registered(), "format")
