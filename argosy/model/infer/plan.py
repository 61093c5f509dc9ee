"""The plan of a computation: which sequences go together, a function of the queries and the limits alone.

Sorted by their tokens, sequences that share a beginning follow each other. Neighbours become one row (a tree,
argosy.model.infer.rows) while that saves work; a beginning that many rows share (few-shot examples, a system turn) is
computed once and kept as keys and values (Zheng et al., SGLang's RadixAttention, 2024). Rows of similar lengths make a
batch."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from argosy.model.infer.rows import Query, Tokens, common

LOGITS = 2**26  # logits of one batch: 256 MiB as float32
ROW = 512  # tokens of a row that has been joined of several sequences
PREFIX_SEQUENCES = 8  # that share a prefix, before its keys and values are worth keeping
PREFIX_TOKENS = 512  # that keeping a prefix has to save, since its rows go in batches of their own
_COPY = 0.02  # work of copying a token's keys and values into a row, in tokens computed


@dataclass(frozen=True)
class Limits:
    """Bounds of a batch."""

    batch_tokens: int
    """tokens of one forward pass, padding and those of a kept prefix included"""
    max_length: int
    """positions of the model"""
    vocabulary: int
    """logits of one position"""
    pair: float | None
    """work of one token's attention to another, in tokens computed; None: sequences cannot be joined"""
    padding: int
    """tokens of padding that a batch may have: the cost of one more forward pass beyond its tokens"""
    short: int = 0
    """a longer sequence is in no batch with one of so many tokens or fewer; 0: it may be"""
    computed: float = math.inf
    """tokens of one forward pass, those of a kept prefix not included"""


@dataclass(frozen=True)
class Batch:
    """Rows that go through the model at once."""

    prefix: Tokens
    """tokens that begin all sequences and are in the cache; () where there is none"""
    rows: tuple[tuple[int, ...], ...]
    """indexes of the queries of each row, sorted by their tokens"""


@dataclass
class _Row:
    """A row in the making. size: tokens beyond the prefix; outputs: positions that need logits, at most."""

    members: list[int]
    size: int
    outputs: int


def plan(queries: Sequence[Query], limits: Limits) -> list[Batch]:
    """Plan batches in which each query is once, largest rows first: memory that does not suffice shows early."""
    short = {index for index, each in enumerate(queries) if len(each.tokens) <= limits.short}
    long = [index for index in range(len(queries)) if index not in short]
    return [*_planned(queries, long, limits), *_planned(queries, sorted(short), limits)]


def _planned(queries: Sequence[Query], chosen: Sequence[int], limits: Limits) -> list[Batch]:
    """Plan batches of the queries `chosen`, which may be together."""
    if not chosen:
        return []
    order = sorted(chosen, key=queries.__getitem__)
    shared = [0, *(common(queries[a].tokens, queries[b].tokens) for a, b in pairwise(order))]
    batches: list[Batch] = []
    rest: list[_Row] = []
    begin = 0
    groups = _prefixes([queries[i] for i in order], shared) if limits.pair is not None else []
    for low, high, skip in [*groups, (len(order), len(order), 0)]:
        rest += _rows(queries, order[begin:low], shared[begin:low], 0, limits)
        rows = _rows(queries, order[low:high], shared[low:high], skip, limits)
        batches += _batches(rows, queries[order[low]].tokens[:skip] if rows else (), limits)
        begin = high
    return [*batches, *_batches(rest, (), limits)]


def _rows(queries: Sequence[Query], order: Sequence[int], shared: Sequence[int], skip: int,
          limits: Limits) -> list[_Row]:
    """Join neighbours while it saves work. `shared`: tokens in common with the one before."""
    rows: list[_Row] = []
    for index, in_common in zip(order, shared, strict=True):
        size = len(queries[index].tokens) - skip
        outputs = len(queries[index].tokens) - queries[index].first
        row = rows[-1] if rows else None
        if row is not None:
            new = size - max(0, in_common - skip)
            if _joins(row.size, size, new, skip, limits):
                before = queries[row.members[-1]].first
                row.outputs += min(outputs, new + max(0, min(in_common, before) - queries[index].first))
                row.members.append(index)
                row.size += new
                continue
        rows.append(_Row([index], size, outputs))
    return rows


def _joins(size: int, other: int, new: int, skip: int, limits: Limits) -> bool:
    """Whether a row of `size` tokens goes on with `new` ones of a sequence of `other`, or a new row begins.

    Within a row, each token costs attention to all of it. A new row computes again what is shared, and has short
    sequences after this one too: it is taken to become half as long as this row. (On BLiMP's sentences that makes 0.4%
    more work than the best of all partings.)"""
    if new == 0:
        return True
    together = size + new
    if limits.pair is None or together > ROW or skip + together > min(limits.max_length, limits.batch_tokens):
        return False
    shared = other - new
    to_come = max(other, size // 2)
    joined = size + to_come - shared
    pairs = joined * (skip + joined) - size * (skip + size) - to_come * (skip + to_come)
    return limits.pair * pairs < shared + _COPY * skip


def _batches(rows: Sequence[_Row], prefix: Tokens, limits: Limits) -> Iterator[Batch]:
    """Batch rows of similar sizes, largest first; a new batch where padding would cost more than it does."""
    chosen: list[_Row] = []
    outputs = padding = 0
    for _, row in sorted(enumerate(rows), key=lambda pair: (-pair[1].size, pair[0])):
        width = (chosen[0] if chosen else row).size
        lines = len(chosen) + 1
        full = lines * (len(prefix) + width) > limits.batch_tokens or lines * width > limits.computed
        uneven = padding + width - row.size > limits.padding
        if chosen and (full or uneven or (outputs + row.outputs) * limits.vocabulary > LOGITS):
            yield Batch(prefix, tuple(tuple(each.members) for each in chosen))
            chosen, outputs, padding, width = [], 0, 0, row.size
        chosen.append(row)
        outputs += row.outputs
        padding += width - row.size
    if chosen:
        yield Batch(prefix, tuple(tuple(each.members) for each in chosen))


@dataclass
class _Interval:
    """Neighbours that share `depth` tokens. saved: what their prefixes save; chosen: (low, high, tokens) of each."""

    depth: int
    low: int
    most: int  # tokens that a prefix of theirs has at most
    saved: float = 0.0
    chosen: tuple[tuple[int, int, int], ...] = ()

    def take(self, other: "_Interval") -> None:
        self.most = min(self.most, other.most)
        self.saved += other.saved
        self.chosen += other.chosen


def best_prefixes(shared: Sequence[int], most: Sequence[int],
                  saves: Callable[[int, int, int, int], float]) -> list[tuple[int, int, int]]:
    """Find (low, high, tokens): sorted sequences low..high-1 whose common first tokens save most when they are read
    once.

    The intervals of sequences that share a beginning, innermost first, by a stack over `shared`, the tokens in common
    with the one before (as longest common prefixes of a suffix array are read: Abouelhoda et al., 2004). `most`: tokens
    of each that may be in a prefix. `saves`: of (low, high, tokens in common, tokens of the prefix)."""
    stack = [_Interval(0, 0, 0)]
    for at in range(1, len(most) + 1):
        depth = shared[at] if at < len(most) else 0
        last = _Interval(0, at - 1, most[at - 1])
        while stack[-1].depth > depth:
            top = stack.pop()
            top.take(last)
            skip = min(top.depth, top.most)
            saved = saves(top.low, at, top.depth, skip)
            if saved > top.saved:
                top.saved, top.chosen = saved, ((top.low, at, skip),)
            last = top
        if stack[-1].depth < depth:
            stack.append(_Interval(depth, last.low, last.most, last.saved, last.chosen))
        else:
            stack[-1].take(last)
    return sorted(stack[0].chosen)


def _prefixes(queries: Sequence[Query], shared: Sequence[int]) -> list[tuple[int, int, int]]:
    """Find the prefixes whose keys and values are worth keeping."""
    new = [0, *accumulate(len(each.tokens) - common for each, common in zip(queries, shared, strict=True))]

    def saves(low: int, high: int, depth: int, skip: int) -> float:
        rows = (new[high] - new[low + 1] + len(queries[low].tokens) - depth) / (ROW / 2)
        return skip * (rows - 1) - PREFIX_TOKENS if high - low >= PREFIX_SEQUENCES else 0.0

    # The position `first` is computed in a row.
    return best_prefixes(shared, [query.first for query in queries], saves)
