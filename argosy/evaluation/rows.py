"""Sequences of tokens that share beginnings, as one row of a batch: each shared token is there once.

A row is a tree. A token attends to its ancestors alone and its position is its depth (tree attention: Miao et al.,
SpecInfer, 2023), so each sequence is seen as if it stood alone. Tokens are in preorder: those below a token are those
after it up to its `end`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Tokens = tuple[int, ...]
Ints = NDArray[np.int64]


class Wanted(NamedTuple):
    """What is asked of one sequence.

    Attributes:
        tokens: those that go through the model.
        first: index of the first token whose successor is predicted; those after it follow.
        targets: the successor of each, which is scored; () where the distribution after the last token is wanted.
    """

    tokens: Tokens
    first: int
    targets: Tokens


@dataclass(frozen=True)
class Row:
    """Packed sequences. All arrays but `places` are a value a token.

    Attributes:
        depths: positions.
        ends: index after the last token below each.
        places: for each sequence, indexes of the tokens whose successors are predicted.
    """

    tokens: Ints
    depths: Ints
    ends: Ints
    places: tuple[Ints, ...]

    @property
    def is_chain(self) -> bool:
        """Whether each token is below the one before it, so that a causal mask is enough."""
        return bool((self.ends == len(self.tokens)).all())


def common(first: Tokens, second: Tokens) -> int:
    """Length of the longest common beginning."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def pack(members: Sequence[Wanted], skip: int = 0) -> Row:
    """The row of sequences that are sorted by their tokens, without their first `skip` tokens (common to all)."""
    tokens: list[int] = []
    depths: list[int] = []
    path: list[int] = []  # of the sequence before: the index of its token at each depth
    before: Tokens = ()
    dropped: list[tuple[int, int]] = []
    places: list[Ints] = []
    for wanted in members:
        shared = max(0, common(before, wanted.tokens) - skip)
        start = len(tokens)
        dropped += [(index, start) for index in path[shared:]]
        tokens += wanted.tokens[skip + shared :]
        depths += range(skip + shared, len(wanted.tokens))
        path = [*path[:shared], *range(start, len(tokens))]
        places.append(np.array(path[wanted.first - skip :], dtype=np.int64))
        before = wanted.tokens
    ends = np.full(len(tokens), len(tokens), dtype=np.int64)
    for index, end in dropped:
        ends[index] = end
    return Row(np.array(tokens, dtype=np.int64), np.array(depths, dtype=np.int64), ends, tuple(places))


@dataclass(frozen=True)
class Grid:
    """Rows side by side, padded at their right.

    Attributes:
        tokens: [row, width]; 0 where there is none.
        depths: [row, width]; where there is none they go on, so that no position is there twice.
        allowed: [row, width, width], whether a token attends to another; None: to all before it.
        outputs: indexes into the flat [row x width] of tokens whose successors are predicted, each once.
        places: for each sequence of each row, indexes into `outputs`.
    """

    tokens: Ints
    depths: Ints
    allowed: NDArray[np.bool_] | None
    outputs: Ints
    places: list[Ints]


def grid(rows: Sequence[Row]) -> Grid:
    """Lay out rows."""
    width = max(len(row.tokens) for row in rows)
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    depths = np.zeros_like(tokens)
    ends = np.full_like(tokens, width)
    flat: list[Ints] = []
    for line, row in enumerate(rows):
        size = len(row.tokens)
        tokens[line, :size], depths[line, :size], ends[line, :size] = row.tokens, row.depths, row.ends
        depths[line, size:] = np.arange(row.depths[-1] + 1, row.depths[-1] + 1 + width - size)
        flat += [places + line * width for places in row.places]
    outputs, index = np.unique(np.concatenate(flat), return_inverse=True)
    places = np.split(index, np.cumsum([len(each) for each in flat])[:-1])
    allowed = None
    if not all(row.is_chain for row in rows):
        at = np.arange(width)
        allowed = (at[:, None] >= at) & (at[:, None] < ends[:, None, :])
    return Grid(tokens, depths, allowed, outputs, places)
