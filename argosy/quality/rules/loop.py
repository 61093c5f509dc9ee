"""An answer that goes round in circles: what greedy decoding of a weak model does (Holtzman et al. 2020)."""

from __future__ import annotations

from collections import Counter

from argosy.cleaning.text import words
from argosy.quality.rule import Generated

GRAM = 4
LEAST_WORDS = 16  # a shorter answer may well say four words twice
MOST_REPEATED = 0.3  # share of 4-grams that were there before; prose of a page stays below a tenth
TIMES = 4  # a period that ends the text this often is a loop, however long the text before it
LEAST_PERIODIC = 12  # characters of such an end


def fault(generated: Generated) -> bool:
    """Its 4-grams of words (Han: characters) repeat, or its end is one piece again and again."""
    found = words(generated.text)
    if len(found) >= LEAST_WORDS:
        grams = Counter(found[at : at + GRAM] for at in range(len(found) - GRAM + 1))
        if 1 - len(grams) / sum(grams.values()) > MOST_REPEATED:
            return True
    return _periodic(generated.text.rstrip())


def _periodic(text: str) -> bool:
    """Whether the text ends in at least `TIMES` copies of a piece, the last one cut off or not."""
    for size in range(1, len(text) // TIMES + 1):
        length = max(TIMES * size, LEAST_PERIODIC)
        end = text[-length:]
        if len(end) == length and end[size:] == end[:-size] and any(c.isalnum() for c in end):
            return True
    return False
