"""Small computations that several kinds of probes share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from argosy.statistics.intervals import Estimate, mean

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


def distinct(texts: Iterable[str]) -> list[str]:
    """Without those that another one begins: where "Paris" counts, "Paris, France" is counted already."""
    found = list(dict.fromkeys(texts))
    return [text for text in found if not any(text != other and text.startswith(other) for other in found)]


def log_sum(logs: Iterable[float]) -> float:
    """Log of the sum of probabilities given as logs; -inf for none."""
    values = list(logs)
    top = max(values, default=-math.inf)
    if not math.isfinite(top):
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def words(text: str) -> int:
    """How many words: what is between spaces; in Chinese and Japanese, which has none, each character. Punctuation that
    stands alone is none."""
    return sum(any(map(str.isalnum, word)) for word in _WORD.findall(text))


def ratio(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> Estimate:
    """scale * sum(above) / sum(below), with the standard error over its pairs by the delta method; NaN for one pair.

    Raises:
        ValueError: there are no pairs.
    """
    value = math.fsum(above) / math.fsum(below)
    each = math.fsum(below) / len(below)
    spread = mean([(a - value * b) / each for a, b in zip(above, below, strict=True)])
    return Estimate(value * scale, spread.stderr * scale, len(above))


def exponential(estimate: Estimate) -> Estimate:
    """exp of an estimate, with the error by the delta method."""
    value = math.exp(min(estimate.value, 700.0))
    return Estimate(value, value * estimate.stderr, estimate.n)


def auc(high: Sequence[float], low: Sequence[float]) -> Estimate:
    """Probability that a value of `high` is above one of `low` (ties count half), with DeLong's standard error (1988).

    Raises:
        ValueError: one of them is empty.
    """
    import numpy as np

    if not high or not low:
        raise ValueError("an AUC of no values")
    a, b = np.asarray(high, dtype=float), np.asarray(low, dtype=float)
    ordered_b, ordered_a = np.sort(b), np.sort(a)
    above = (np.searchsorted(ordered_b, a, "left") + np.searchsorted(ordered_b, a, "right")) / 2 / len(b)
    below = 1 - (np.searchsorted(ordered_a, b, "left") + np.searchsorted(ordered_a, b, "right")) / 2 / len(a)
    value = float(above.mean())
    if min(len(a), len(b)) < 2:
        return Estimate(value, math.nan, len(a) + len(b))
    return Estimate(value, float(np.sqrt(above.var(ddof=1) / len(a) + below.var(ddof=1) / len(b))), len(a) + len(b))
