"""Sequences of tokens that share beginnings, packed into one row of a batch, and the scores of their continuations.

A row is a tree. A token attends to its ancestors alone and its position is its depth (tree attention: Miao et al.,
SpecInfer, 2023), so each sequence is computed as if it stood alone. Tokens are in preorder: those below a token are
those after it up to its `end`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Score:
    """The score of one continuation."""

    logprob: float
    """sum of its tokens' log-probabilities in nats; NaN when the model gave none"""
    greedy: bool
    """each token was the most probable one"""
    tokens: int
    why: str = ""
    """reason why it has no score, where one is known"""


NOT_SCORED = Score(math.nan, False, 0)
NO_NUMBER, TOO_LONG = "score is not a number", "answer is longer than the model"
JOINED = "a token joins prompt and answer, and the prompts of its options differ there"


def problem(scores: Iterable[Score]) -> str:
    """Say why one of the scores is none; "" where all are numbers."""
    lost = [score for score in scores if not (math.isfinite(score.logprob) and score.tokens)]
    return next((score.why for score in lost if score.why), NO_NUMBER) if lost else ""


@dataclass(frozen=True)
class TokenScores:
    """The scores of one continuation's tokens."""

    logprobs: NDArray[np.float64]
    """nats"""
    greedy: NDArray[np.bool_]

    @property
    def score(self) -> Score:
        return Score(float(self.logprobs.sum()), bool(self.greedy.all()), len(self.logprobs))

    def dump(self) -> list[list[Any]]:
        return [self.logprobs.tolist(), self.greedy.astype(int).tolist()]

    @classmethod
    def load(cls, dumped: list[list[Any]]) -> "TokenScores":
        return cls(np.array(dumped[0], dtype=np.float64), np.array(dumped[1], dtype=np.bool_))


class Query(NamedTuple):
    """A sequence that goes through the model, and the predictions that are read of it."""

    tokens: Tokens
    first: int
    """index of the first token whose successor is predicted; those after it follow"""
    targets: Tokens
    """the successors that are scored; () where the distribution after the last token is read"""


@dataclass(frozen=True)
class Row:
    """Packed sequences. All arrays but `places` have a value a token."""

    tokens: Ints
    depths: Ints
    """positions"""
    ends: Ints
    """index after the last token below each"""
    places: tuple[Ints, ...]
    """for each sequence, indexes of the tokens whose successors are predicted"""

    @property
    def is_chain(self) -> bool:
        """Whether each token is below the one before it, so that a causal mask is enough."""
        return bool((self.ends == len(self.tokens)).all())


def common(first: Tokens, second: Tokens) -> int:
    """Count the tokens of the longest common beginning."""
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


def pack(members: Sequence[Query], skip: int = 0) -> Row:
    """Pack sequences that are sorted by their tokens into a row, without their first `skip` tokens (common to all)."""
    tokens: list[int] = []
    depths: list[int] = []
    path: list[int] = []  # of the sequence before: the index of its token at each depth
    before: Tokens = ()
    dropped: list[tuple[int, int]] = []
    places: list[Ints] = []
    for query in members:
        shared = max(0, common(before, query.tokens) - skip)
        start = len(tokens)
        dropped += [(index, start) for index in path[shared:]]
        tokens += query.tokens[skip + shared :]
        depths += range(skip + shared, len(query.tokens))
        path = [*path[:shared], *range(start, len(tokens))]
        places.append(np.array(path[query.first - skip :], dtype=np.int64))
        before = query.tokens
    ends = np.full(len(tokens), len(tokens), dtype=np.int64)
    for index, end in dropped:
        ends[index] = end
    return Row(np.array(tokens, dtype=np.int64), np.array(depths, dtype=np.int64), ends, tuple(places))


@dataclass(frozen=True)
class Grid:
    """Rows side by side, padded at their right."""

    tokens: Ints
    """[row, width]; 0 in the padding"""
    depths: Ints
    """[row, width]; they go on in the padding, so that no position is there twice"""
    allowed: NDArray[np.bool_] | None
    """[row, width, width], whether a token attends to another; None: to all before it"""
    outputs: Ints
    """indexes into the flat [row x width] of tokens whose successors are predicted, each once"""
    places: list[Ints]
    """for each sequence of each row, indexes into `outputs`"""


def grid(rows: Sequence[Row]) -> Grid:
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
