"""Right answers that are published in a file of their own beside the questions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from argosy.errors import InputError
from evals.formats.format import Records, json_lines, read_bytes
from evals.items import BrokenItem


def with_labels(path: Path, encoding: str, field: str = "label") -> Records:
    """Lines of `dev.jsonl` with the lines of `dev-labels.lst` as `field`, where such a file is beside it.

    Raises:
        InputError: the two have different numbers of lines.
    """
    file = path.with_name(f"{path.stem}-labels.lst")
    records = json_lines(path, encoding)
    if not file.is_file():
        yield from records
        return
    labels = read_bytes(file).decode("utf-8-sig").split()
    lines = count()
    for record in records:
        number = next(lines)
        label = labels[number] if number < len(labels) else None
        yield record if isinstance(record, BrokenItem) else {field: label, **record}
    _check_lengths(path, file, next(lines), labels)


def _check_lengths(path: Path, file: Path, lines: int, labels: Sequence[str]) -> None:
    if lines != len(labels):
        raise InputError(f"{path} has {lines} lines and {file.name} {len(labels)}: they are not of one split")
