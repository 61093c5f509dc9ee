"""An answer that says the question again."""

from __future__ import annotations

from argosy.cleaning.text import normalise
from argosy.quality.rule import Generated

LEAST = 12  # bytes (UTF-8) of a question that is no word or two


def fault(generated: Generated) -> bool | None:
    """The whole question stands in the answer, but for case, width and punctuation; None of a very short question."""
    prompt = normalise(generated.prompt)
    return None if len(prompt.encode()) < LEAST else prompt in normalise(generated.text)
