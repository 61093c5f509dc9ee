"""The windows of one channel: the tokens of window w in epoch e, each document whole where it fits.

Documents share a window by best-fit-decreasing packing, so that none that fits is cut (Ding et al. 2024, "Fewer
Truncations Improve Language Modeling"). The bins depend on the lengths alone; documents of equal length are
interchangeable, so that each epoch packs other documents together at no cost."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from argosy.corpus.data.split import derive_seed, permuted_index
from argosy.corpus.tokens.reader import TokenizedChannel

Ints = npt.NDArray[np.int64]
BLOCK_DOCUMENTS = 4096  # documents that may share windows: bounds the work and memory of one epoch's shuffle
IGNORED = -100  # the target that torch's losses ignore


@dataclass(frozen=True)
class Window:
    """`length` positions of training input. `targets[i]` follows `inputs[i]`; IGNORED where nothing does."""

    inputs: npt.NDArray[np.int64]  # (length,)
    targets: npt.NDArray[np.int64]  # (length,)
    documents: npt.NDArray[np.int64]  # (length,), which of the window's documents a target belongs to: 0, 1, ...


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


def position_ranges(length: int) -> list[tuple[int, int]]:
    """List the ranges of positions that losses are told apart by: each as long as all before it, `length` in all."""
    return list(pairwise([0, *(length >> shift for shift in (3, 2, 1, 0))]))


def cut_documents(offsets: Ints, window: int) -> Pieces:
    """Cut the documents between `offsets` ((documents + 1,), int64) into pieces of at most `window` targets.

    A document's first token, `<|bos|>`, is an input and never a target."""
    lengths = np.maximum(0, np.diff(offsets) - 1)
    counts = -(-lengths // window)
    document = np.repeat(np.arange(len(lengths)), counts)
    position = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    length = np.minimum(window, lengths[document] - position * window)
    return Pieces(offsets[:-1][document] + 1 + position * window, length)


def pack(lengths: Ints, window: int) -> Packing:
    """Pack pieces of these lengths ((pieces,), each at most `window`) into windows, best fit, longest first."""
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


@dataclass(frozen=True)
class _Block:
    pieces: Pieces
    packing: Packing


class ChannelWindows:
    """All windows of `length` tokens of a channel. An epoch shows each token but `<|bos|>` exactly once as a target.

    Each epoch packs and orders the documents anew, as a pure function of (seed, channel name, epoch): nothing is
    carried from window to window. Opening costs about a microsecond a document."""

    def __init__(self, channel: TokenizedChannel, length: int, seed: int, *, together: bool = True) -> None:
        """`together`: documents share windows; else each has one, or as many as it fills."""
        self._channel = channel
        self._length = length
        self._seed = seed
        self._together = together
        self._blocks = [self._pack(start) for start in range(0, channel.documents, BLOCK_DOCUMENTS)]
        self._first = np.concatenate(([0], np.cumsum([block.packing.bins for block in self._blocks])))
        self._order = lru_cache(maxsize=64)(self._shuffle)

    def __len__(self) -> int:
        """Windows in an epoch."""
        return int(self._first[-1])

    def window(self, ordinal: int) -> Window:
        """Return the window that is the channel's `ordinal`-th (0, 1, ...) of a run."""
        epoch, position = divmod(ordinal, len(self))
        index = permuted_index(position, len(self), derive_seed(self._seed, self._channel.name, "window", epoch))
        number = int(np.searchsorted(self._first, index, side="right")) - 1
        packing = self._blocks[number].packing
        bin_number = index - int(self._first[number])
        ranks = packing.ranks[packing.bounds[bin_number] : packing.bounds[bin_number + 1]]
        order, keys = self._order(number, epoch)
        members = order[ranks]
        return self._assemble(number, members[np.argsort(keys[members])])

    def _pack(self, start: int) -> _Block:
        offsets = np.asarray(self._channel.offsets[start : start + BLOCK_DOCUMENTS + 1])
        pieces = cut_documents(offsets, self._length)
        if self._together:
            return _Block(pieces, pack(pieces.length, self._length))
        return _Block(pieces, Packing(np.arange(len(pieces.length)), np.arange(len(pieces.length) + 1)))

    def _shuffle(self, number: int, epoch: int) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Return the pieces by length rank, equal lengths in random order; and the random keys."""
        lengths = self._blocks[number].pieces.length
        rng = np.random.default_rng(derive_seed(self._seed, self._channel.name, "order", epoch, number))
        keys = rng.random(len(lengths))
        return np.lexsort((keys, -lengths)), keys

    def _assemble(self, number: int, members: Ints) -> Window:
        pieces, tokens = self._blocks[number].pieces, self._channel.tokens
        inputs = np.zeros(self._length, np.int64)
        targets = np.full(self._length, IGNORED, np.int64)
        documents = np.full(self._length, len(members), np.int64)
        at = 0
        for index, piece in enumerate(members.tolist()):
            start, length = int(pieces.start[piece]), int(pieces.length[piece])
            inputs[at : at + length] = tokens[start - 1 : start + length - 1]
            targets[at : at + length] = tokens[start : start + length]
            documents[at : at + length] = index
            at += length
        return Window(inputs, targets, documents)
