"""Rows of text as aligned columns, for terminals and pipes alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """`rows` aligned by column, two spaces between; `right` names columns to align right. Chinese counts double."""
    if not rows:
        return ""
    widths = [max(_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(_pad(cell, widths[i], i in right) for i, cell in enumerate(row)).rstrip() for row in rows
    )


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m 05s`, `2h 10m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if right else cell + space


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
