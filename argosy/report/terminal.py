"""The paired comparison for a terminal: the numbers that the report shows, from the same functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from argosy.evaluation.results import has_items
from argosy.report.answers import read_items_file
from argosy.report.checkpoints import Checkpoint
from argosy.report.paired import HEADLINE, Change, adjust, changes
from argosy.report.verdict import percent, points

HEADINGS = ("FROM", "TO", "TASK", "FORM", "BEFORE", "AFTER", "DIFFERENCE", "ITEMS", "P (HOLM)", "VERDICT")
Row = tuple[str, ...]


def change_rows(checkpoints: Sequence[tuple[str, Sequence[Path]]]) -> list[Row]:
    """From the first checkpoint to each other one, on the items that both answered; none where there are no such.

    Args:
        checkpoints: (name, directories of its evaluations). Holm's correction is over the forms of one pair, and
            for `headline` over the pairs of one task.

    Returns:
        Rows under HEADINGS.
    """
    first, *others = [_checkpoint(name, directories) for name, directories in checkpoints]
    rows: list[Row] = []
    for task in first.tasks:
        pairs = [changes(first, other, task) for other in others]
        whole = iter(adjust([c for pair in pairs for c in pair if c.variant == HEADLINE]))
        for pair in pairs:
            rows += _rows(next(whole) if c.variant == HEADLINE else c for c in pair)
    return rows


def _rows(found: Iterator[Change]) -> Iterator[Row]:
    for c in found:
        yield (c.first, c.second, c.task, c.variant, percent(c.before), percent(c.after), points(c.interval),
               str(c.items), f"{c.p_adjusted:.3g}", c.verdict)


def _checkpoint(name: str, directories: Sequence[Path]) -> Checkpoint:
    c = Checkpoint(name, "", name, "", 0, 0, label=name)
    for directory in directories:
        if has_items(directory):
            c.answers |= read_items_file(directory).answers
    return c
