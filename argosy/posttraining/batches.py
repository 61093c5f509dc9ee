"""Token sequences of several lengths as rectangular tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def pad_right(rows: Sequence[Sequence[int]], value: int) -> Any:
    """A (rows, longest row) int64 tensor, padded on the right with `value`."""
    import torch

    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def pad_left(rows: Sequence[Sequence[int]], value: int) -> Any:
    """A (rows, longest row) int64 tensor, padded on the left with `value`, as generation needs it."""
    import torch

    longest = max(len(row) for row in rows)
    return torch.tensor([[value] * (longest - len(row)) + list(row) for row in rows])


def by_length(rows: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Indices of all rows in batches of near-equal lengths, shortest first."""
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
