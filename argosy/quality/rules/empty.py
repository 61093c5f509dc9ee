"""An answer without a word."""

from __future__ import annotations

from argosy.cleaning.text import words
from argosy.quality.rule import Generated


def fault(generated: Generated) -> bool:
    """No letter, digit or Han character."""
    return not words(generated.text)
