"""Metrics that must not be above a value."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from argosy.gate import thresholds
from argosy.gate.rule import Finding, Rule
from argosy.gate.subject import Subject
from argosy.gate.thresholds import Threshold


class AtMost(Rule):
    """`at_most: {heldout/bpb/code: 1.2}`: metrics, or patterns, with the highest value that is allowed.

    `{value: 1.2, certain: true}` instead of a number wants the whole interval of 95 % there.
    """

    name: ClassVar[str] = "at_most"
    metrics: dict[str, float | Threshold] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """The metrics themselves are what is written."""
        return value if isinstance(value, dict) and set(value) == {"metrics"} else {"metrics": value}

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """A finding for each metric."""
        return thresholds.look(self.metrics, new, reference, -1)
