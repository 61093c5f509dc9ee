"""Corrections for many comparisons at once.

Holm where a decision hangs on it (no false alarm at all, in 95 of 100 families); Benjamini-Hochberg and -Yekutieli for
tables to look through (of what they mark, 5% are false alarms on average).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeVar

K = TypeVar("K")
Method = Literal["holm", "benjamini-hochberg", "benjamini-yekutieli"]
DECISION: Method = "holm"
TABLE: Method = "benjamini-hochberg"
NAMES: dict[Method, str] = {"holm": "Holm", "benjamini-hochberg": "Benjamini and Hochberg",
                            "benjamini-yekutieli": "Benjamini and Yekutieli"}


def correct(p_values: Mapping[K, float], method: Method = TABLE) -> dict[K, float]:
    """Adjusted p-values of one family; `DECISION` for a gate or a choice, `TABLE` for what is looked through.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    return {"holm": holm, "benjamini-hochberg": benjamini_hochberg,
            "benjamini-yekutieli": benjamini_yekutieli}[method](p_values)


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Holm's step-down adjusted p-values (1979): below 0.05 keeps the family's error rate at 5%.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    ordered = _ordered(p_values)
    adjusted: dict[K, float] = {}
    highest = 0.0
    for rank, key in enumerate(ordered):
        highest = max(highest, min(1.0, p_values[key] * (len(ordered) - rank)))
        adjusted[key] = highest
    return {key: adjusted[key] for key in p_values}


def benjamini_hochberg(p_values: Mapping[K, float]) -> dict[K, float]:
    """Step-up adjusted p-values (1995): those below 0.05 are false in 5% on average, where tests are independent
    or rise together.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    return _step_up(p_values, 1.0)


def benjamini_yekutieli(p_values: Mapping[K, float]) -> dict[K, float]:
    """The same for tests that depend on each other in any way (2001): larger by 1 + 1/2 + ... + 1/number.

    Raises:
        ValueError: a p-value is not within 0..1.
    """
    return _step_up(p_values, math.fsum(1 / rank for rank in range(1, len(p_values) + 1)))


def _step_up(p_values: Mapping[K, float], factor: float) -> dict[K, float]:
    ordered = _ordered(p_values)
    adjusted: dict[K, float] = {}
    lowest = 1.0
    for rank in range(len(ordered), 0, -1):
        key = ordered[rank - 1]
        lowest = min(lowest, p_values[key] * len(ordered) * factor / rank)
        adjusted[key] = lowest
    return {key: adjusted[key] for key in p_values}


def _ordered(p_values: Mapping[K, float]) -> list[K]:
    wrong = {key: p for key, p in p_values.items() if not 0 <= p <= 1}
    if wrong:
        raise ValueError(f"not p-values (allowed: 0 to 1): {wrong}")
    return sorted(p_values, key=lambda key: p_values[key])
