"""Student's t, for whole degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache


def two_sided(t: float, degrees: int) -> float:
    """P(|T| >= |t|), by the finite sums of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4; exact to about 1e-15.

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    if degrees < 1:
        raise ValueError(f"degrees is {degrees}; allowed: 1 or more")
    angle = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    terms = []
    for k in range(2 + odd, degrees + 2 - odd, 2):
        terms.append(term)
        term *= cosine * cosine * (k - 1) / k
    inside = sine * math.fsum(terms)
    return max(0.0, 1.0 - (2 / math.pi * (angle + inside) if odd else inside))


@lru_cache(maxsize=1024)
def quantile(level: float, degrees: int) -> float:
    """The t of a two-sided interval: 2.262 for 0.95 and 9 degrees of freedom."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; allowed: between 0 and 1")
    low, high = 0.0, 1.0
    while two_sided(high, degrees) > 1 - level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > 1 - level else (low, middle)
    return high
