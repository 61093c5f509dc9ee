"""Text of the data as it may be shown, and columns of it for terminals."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_KEPT = "\n\t\u200c\u200d"  # joiners belong to scripts and emoji, and move nothing


def visible(text: object) -> str:
    """`text` with control and direction marks shown as their code: they must not reorder the line around them."""
    return "".join(c if c in _KEPT or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co") else f"⟨{ord(c):04X}⟩"
                   for c in str(text))


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """`rows` aligned by column, two spaces between; `right` names columns to align right. Chinese counts double."""
    if not rows:
        return ""
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(_pad(cell, widths[i], i in right) for i, cell in enumerate(row)).rstrip() for row in rows
    )


def width(text: str) -> int:
    """Of a line of text in a terminal: Chinese counts double."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _pad(cell: str, wide: int, right: bool) -> str:
    space = " " * (wide - width(cell))
    return space + cell if right else cell + space
