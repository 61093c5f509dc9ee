"""Western punctuation between Chinese characters: GB/T 15834 has full-width marks there."""

from __future__ import annotations

import re

from argosy.cleaning.text import HAN
from argosy.quality.rule import Generated

_HALF = re.compile(rf"(?<=[{HAN}])[,;:?!](?=\s*[{HAN}])|(?<=[{HAN}])\.(?=\s*(?:[{HAN}]|$))")
_FULL = re.compile("[，；：？！。、]")
MOST = 0.2  # of all marks between Chinese characters


def fault(generated: Generated) -> bool | None:
    """More than a fifth of the marks are half-width; None of an answer that is not Chinese or has no mark."""
    if not generated.chinese:
        return None
    half, full = len(_HALF.findall(generated.text)), len(_FULL.findall(generated.text))
    return half / (half + full) > MOST if half + full else None
