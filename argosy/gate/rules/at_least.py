"""Metrics that must not be below a value."""

from __future__ import annotations

from typing import ClassVar

from argosy.gate.thresholds import Bounds


class AtLeast(Bounds):
    """`at_least: {bench/mmlu/cloze/acc: 0.3}`: metrics, or patterns, with the lowest value that is allowed.

    `{value: 0.3, certain: true}` instead of a number wants the whole interval of 95 % there.
    """

    name: ClassVar[str] = "at_least"
    sign: ClassVar[int] = 1
