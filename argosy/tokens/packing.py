"""Best-fit-decreasing packing: which documents share a window, so that none that fits is cut.

Ding et al. 2024, "Fewer Truncations Improve Language Modeling". The bins depend on the lengths alone; documents of
equal length are interchangeable, which is what lets each epoch pack other documents together at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Documents cut where they exceed a window: the targets of piece p are `tokens[start[p]:start[p] + length[p]]`,
    and each one's input is the token before it."""

    start: Ints
    length: Ints


@dataclass(frozen=True)
class Packing:
    """Bin b holds the pieces of length ranks `ranks[bounds[b]:bounds[b + 1]]` (rank 0 is the longest)."""

    ranks: Ints
    bounds: Ints

    @property
    def bins(self) -> int:
        """Number of windows."""
        return len(self.bounds) - 1


def cut_documents(offsets: Ints, window: int) -> Pieces:
    """Cut the documents between `offsets` ((documents + 1,), int64) into pieces of at most `window` targets.

    A document's first token, `<|bos|>`, is an input and never a target.
    """
    lengths = np.maximum(0, np.diff(offsets) - 1)
    counts = -(-lengths // window)
    document = np.repeat(np.arange(len(lengths)), counts)
    position = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    length = np.minimum(window, lengths[document] - position * window)
    return Pieces(offsets[:-1][document] + 1 + position * window, length)


def pack(lengths: Ints, window: int) -> Packing:
    """Best-fit decreasing of pieces of these lengths ((pieces,), each at most `window`) into windows."""
    descending = np.sort(lengths)[::-1]
    bin_of_rank = np.empty(len(descending), np.int64)
    free: list[list[int]] = [[] for _ in range(window + 1)]  # open bins by their remaining capacity
    occupied = 0  # bit c is set where free[c] holds a bin
    bins = 0
    for rank, length in enumerate(descending.tolist()):
        fitting = occupied >> length
        if fitting:
            capacity = length + (fitting & -fitting).bit_length() - 1
            chosen = free[capacity].pop()
            if not free[capacity]:
                occupied ^= 1 << capacity
        else:
            capacity, chosen = window, bins
            bins += 1
        bin_of_rank[rank] = chosen
        if capacity > length:
            free[capacity - length].append(chosen)
            occupied |= 1 << (capacity - length)
    ranks = np.argsort(bin_of_rank, kind="stable")
    return Packing(ranks, np.concatenate(([0], np.cumsum(np.bincount(bin_of_rank, minlength=bins)))))
