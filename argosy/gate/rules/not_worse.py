"""Benchmarks and other metrics, item by item."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from argosy.gate.rule import HOLDS, Finding, Rule, matching, unmeasured
from argosy.gate.subject import Subject
from argosy.gate.worse import NOISE, Margin, not_worse


class NotWorse(Rule):
    """Metrics are not worse than the reference's, on the same items.

    `on`: metrics or patterns; default the headline of each benchmark (`bench/<task>/headline/acc`). `beyond`: `noise`
    (a test), or a margin in the metric's unit (0.02: two points of accuracy) that must be excluded.
    """

    name: ClassVar[str] = "not_worse"
    on: tuple[str, ...] = Field(("bench/*/headline/acc",), min_length=1)
    beyond: Literal["noise"] | Margin = "noise"

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """A finding for each metric."""
        if reference is None:
            return [Finding(", ".join(self.on), HOLDS, "there is no reference yet, so nothing to be worse than")]
        names, none = matching(self.on, reference.names())
        margin = None if self.beyond == NOISE else float(self.beyond)
        return [not_worse(name, new, reference, margin, alpha) for name in names] + [
            unmeasured(pattern, reference.names(), reference.label) for pattern in none]
