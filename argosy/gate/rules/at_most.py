"""Metrics that must not be above a value."""

from __future__ import annotations

from typing import ClassVar

from argosy.gate.thresholds import Bounds


class AtMost(Bounds):
    """`at_most: {heldout/bpb/code: 1.2}`: metrics, or patterns, with the highest value that is allowed.

    `{value: 1.2, certain: true}` instead of a number wants the whole interval of 95 % there.
    """

    name: ClassVar[str] = "at_most"
    sign: ClassVar[int] = -1
