"""An answer that the model did not end itself."""

from __future__ import annotations

from argosy.quality.rule import Generated


def fault(generated: Generated) -> bool:
    """It was cut at the limit of tokens."""
    return not generated.ended
