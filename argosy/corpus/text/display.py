"""Text of the data as it may be shown, and aligned columns of it for terminals."""

import unicodedata
from collections.abc import Sequence

_KEPT = "\n\t\u200c\u200d"  # joiners belong to scripts and emoji, and move nothing


def visible(text: object) -> str:
    """`text` with control and direction marks shown as their code: they must not reorder the line around them."""
    return "".join(c if c in _KEPT or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co") else f"⟨{ord(c):04X}⟩"
                   for c in str(text))


def plain(value: float) -> str:
    """Write three decimals, fewer of what is large, and a power of ten of what is tiny (a probability of 0.0001)."""
    if value and (abs(value) < 0.001 or abs(value) >= 1e6):
        return f"{value:.2e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}" if abs(value) < 10_000 else f"{value:,.0f}"


def short(value: float) -> str:
    """`1.5M`, `20k`, `0.25`: a number on an axis."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """`rows` aligned by column, two spaces between; `right` names columns to align right. Chinese counts double."""
    if not rows:
        return ""
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(_pad(cell, widths[i], i in right) for i, cell in enumerate(row)).rstrip() for row in rows)


def width(text: str) -> int:
    """Return the columns of a line of text in a terminal: Chinese counts double."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _pad(cell: str, wide: int, right: bool) -> str:
    space = " " * (wide - width(cell))
    return space + cell if right else cell + space


FEW = 8  # lines of what says little, without --all
NARROWEST, NARROW = 76, 96  # widths from which there are more columns
SHORTEST = 18  # that a name is cut to


def letter(number: int) -> str:
    """Return the short name of an entry: A, B, C."""
    return chr(65 + number) if number < 26 else str(number + 1)


def fitted(rows: Sequence[tuple[str, ...]], wide: int, cut: Sequence[int], right: Sequence[int]) -> list[str]:
    """Aligned rows; the columns `cut` lose the middle of long names where the line would be too wide."""
    text = columns(rows, right=right)
    over = max(map(width, text.splitlines())) - wide
    for column in cut:
        if over > 0:
            longest = max(width(row[column]) for row in rows)
            keep = max(SHORTEST, longest - over)
            over -= max(0, longest - keep)
            rows = [(*row[:column], _middle(row[column], keep), *row[column + 1 :]) for row in rows]
    return columns(rows, right=right).splitlines()


def _middle(text: str, keep: int) -> str:
    if width(text) <= keep:
        return text
    head, tail = text, text
    while width(head) > (keep - 1) // 2:
        head = head[:-1]
    while width(tail) > keep - 1 - width(head):
        tail = tail[1:]
    return f"{head}…{tail}"


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m 05s`, `2h 10m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
