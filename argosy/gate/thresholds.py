"""What rules about a metric's own value share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from argosy.comparison.kinds import kind_of
from argosy.config import Config
from argosy.gate.rule import CANNOT_TELL, FAILS, HOLDS, Finding, Rule, matching, unmeasured
from argosy.gate.subject import Subject, covers
from argosy.statistics import normal_interval, share_interval


class Threshold(Config):
    """`value`: the bound. `certain`: the whole interval of 95 % must keep it, not the value alone."""

    value: float
    certain: bool = False


class Bounds(Rule):
    """Base of the rules that are written as metrics, or patterns, with a bound each."""

    sign: ClassVar[int]  # 1: at least, -1: at most
    metrics: dict[str, float | Threshold] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """The metrics themselves are what is written."""
        return value if isinstance(value, dict) and set(value) == {"metrics"} else {"metrics": value}

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """A finding for each metric."""
        return look(self.metrics, new, reference, self.sign)


def look(bounds: Mapping[str, float | Threshold], new: Subject, reference: Subject | None, sign: int) -> list[Finding]:
    """A finding for each metric; sign 1: at least, -1: at most. A pattern is also of what the reference has and of what
    failed for the new checkpoint, so that what is missing is not passed over."""
    known = sorted({*new.names(), *(reference.names() if reference else ())})
    found = []
    for pattern, given in bounds.items():
        bound = given if isinstance(given, Threshold) else Threshold(value=float(given))
        names, none = matching([pattern], known)
        found += [_one(name, bound, new, sign) for name in names]
        found += [Finding(where, CANNOT_TELL, f"{where} failed for {new.label}: {why}")
                  for where, why in new.failed.items()
                  if names and covers(pattern, where) and not any(covers(name, where) for name in names)]
        found += [unmeasured(p, known, new.label, "evaluate it with a suite that has it") for p in none]
    return found


def _one(name: str, bound: Threshold, new: Subject, sign: int) -> Finding:
    side = new.side(name)
    if side is None or not math.isfinite(side.value):
        return Finding(name, CANNOT_TELL, f"{name} is not measured for {new.label}, or is not a number: evaluate it")
    interval = _interval(name, side.value, side.stderr, new.counts.get(name, len(side.values or ())))
    word = "least" if sign > 0 else "most"
    text = f"{name} {side.value:.4g}" + (f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else "")
    text += f", wanted at {word} {bound.value:g}"
    numbers = {"value": side.value, "bound": bound.value}
    if interval:
        numbers |= {"low": interval[0], "high": interval[1]}
    kept = sign * side.value >= sign * bound.value
    if not bound.certain:
        return Finding(name, HOLDS if kept else FAILS, text, numbers)
    if interval is None:
        return Finding(name, CANNOT_TELL, f"{text}: its error is not known, so it cannot be certain", numbers)
    if min(sign * interval[0], sign * interval[1]) >= sign * bound.value:
        return Finding(name, HOLDS, text, numbers)
    return Finding(name, CANNOT_TELL if kept else FAILS, f"{text}, the whole interval", numbers)


def _interval(name: str, value: float, stderr: float, n: int) -> tuple[float, float] | None:
    if not math.isfinite(stderr):
        return None
    if kind_of(name).share and n and 0 <= value <= 1:
        return share_interval(value, stderr, n)
    return normal_interval(value, stderr)
