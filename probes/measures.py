"""Small computations that several kinds of probes share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from argosy.evaluation.estimates import auc, exponential, ratio

__all__ = ["auc", "distinct", "exponential", "log_sum", "ratio", "words"]

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
