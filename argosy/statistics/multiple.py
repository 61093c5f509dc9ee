"""Many comparisons at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Holm's step-down adjusted p-values (1979): below 0.05 keeps the family's error rate at 5%.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    wrong = {key: p for key, p in p_values.items() if not 0 <= p <= 1}
    if wrong:
        raise ValueError(f"not p-values (allowed: 0 to 1): {wrong}")
    ordered = sorted(p_values, key=lambda key: p_values[key])
    adjusted: dict[K, float] = {}
    highest = 0.0
    for rank, key in enumerate(ordered):
        highest = max(highest, min(1.0, p_values[key] * (len(ordered) - rank)))
        adjusted[key] = highest
    return {key: adjusted[key] for key in p_values}
