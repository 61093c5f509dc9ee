"""What is wrong with a generated text, by rules: no other model is asked. See docs/judging.md."""

from argosy.quality.rule import Generated
from argosy.quality.rules import faults, registered

__all__ = ["Generated", "faults", "registered"]
