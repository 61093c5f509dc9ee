"""What scoring a continuation gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Score:
    """Of one continuation: the sum of its tokens' log-probabilities (nats; NaN when the model gave none),
    whether each token was the most probable one, and how many tokens it has."""

    logprob: float
    greedy: bool
    tokens: int


NOT_SCORED = Score(math.nan, False, 0)


@dataclass(frozen=True)
class Scored:
    """Of one continuation, a value a token: log-probability (nats), and whether it was the most probable one."""

    logprobs: NDArray[np.float64]
    greedy: NDArray[np.bool_]

    @property
    def score(self) -> Score:
        """Of all of them."""
        return Score(float(self.logprobs.sum()), bool(self.greedy.all()), len(self.logprobs))

    def dump(self) -> list[list[Any]]:
        """As lists of numbers."""
        return [self.logprobs.tolist(), self.greedy.astype(int).tolist()]

    @classmethod
    def load(cls, dumped: list[list[Any]]) -> Scored:
        """From such lists."""
        return cls(np.array(dumped[0], dtype=np.float64), np.array(dumped[1], dtype=np.bool_))
