"""What an item's published form has over its equals, item by item: what a score of contamination is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Equals:
    """Scores of each item: of the published form first, then of its equals (higher: likelier)."""

    name: str
    scores: Mapping[str, Sequence[float]]

    def values(self) -> dict[str, float]:
        """By item, where the published form stands among its equals, in their standard deviations: mean 0 and mean
        square 1 for who has not seen the items, whatever the model's scale."""
        return {item: _standing(scores) for item, scores in self.scores.items() if len(scores) > 1}


@dataclass(frozen=True)
class Gap:
    """Right answers of each item (0 to 1) as published and in a changed form."""

    name: str
    published: Mapping[str, float]
    changed: Mapping[str, float]

    def values(self) -> dict[str, float]:
        """By item, how much of being right the change costs."""
        return {item: self.published[item] - self.changed[item] for item in self.published if item in self.changed}


Evidence = Equals | Gap


def _standing(scores: Sequence[float]) -> float:
    centre = math.fsum(scores) / len(scores)
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in scores) / len(scores))
    if not math.isfinite(spread):
        return math.nan
    return (scores[0] - centre) / spread if spread > 0 else 0.0
