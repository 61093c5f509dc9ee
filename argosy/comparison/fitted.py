"""Tables that are as wide as the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from argosy.report.visible import columns, width

FEW = 8  # lines of what says little, without --all
NARROWEST, NARROW = 76, 96  # widths from which there are more columns
SHORTEST = 18  # that a name is cut to


def letter(number: int) -> str:
    """What an entry is called in short: A, B, C."""
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
