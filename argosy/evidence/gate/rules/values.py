"""Rules about a metric's own value: at least, at most."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from argosy.core.config.explain import config_error, shown
from argosy.core.config.schema import Config
from argosy.evidence.gate.rules import CANNOT_TELL, FAILS, HOLDS, Finding, Rule, matching, unmeasured
from argosy.evidence.gate.subject import Subject, covers


class Threshold(Config):
    """The bound of a metric."""

    value: float
    certain: bool = False
    """whether the whole interval of 95 % must keep it, not the value alone"""


class Bounds(Rule):
    """Base of the rules that are written as metrics, or patterns, with a bound each."""

    sign: ClassVar[int]  # 1: at least, -1: at most
    metrics: dict[str, float | Threshold] = Field(min_length=1)
    """metrics, or patterns, with the value that is allowed; `{value: 0.3, certain: true}` in place of a number wants
    the whole interval of 95 % there"""

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """The metrics themselves are what is written."""
        flat = value if isinstance(value, dict) and set(value) == {"metrics"} else {"metrics": value}
        given = flat["metrics"]
        if not isinstance(given, Mapping) or not given:
            what = shown(given) if given else "without a metric"
            raise ValueError(f"it is {what}, allowed: metrics with a bound each, such as {{bench/mmlu/cloze/acc: 0.3}}")
        if wrong := [text for name, bound in given.items() if (text := _wrong(name, bound))]:
            raise ValueError("; ".join(wrong))
        return flat

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        return look(self.metrics, new, reference, self.sign)


def _wrong(name: str, bound: Any) -> str:
    """The error of a metric's bound, in place of what each type of a union has to say; "" where nothing is."""
    if isinstance(bound, Threshold):
        return ""
    try:  # true is no bound, though pydantic takes it for 1
        value = shown(bound) if isinstance(bound, bool) else bound
        Threshold.model_validate(bound if isinstance(bound, Mapping) else {"value": value})
    except ValidationError as error:
        if isinstance(bound, Mapping):
            return f"{name}: {config_error(Threshold, error)}"
        finite = "finite " if error.errors()[0]["type"] == "finite_number" else ""
        return f"{name} is {shown(bound)}, allowed: a {finite}number, or {{value: NUMBER, certain: true}}"
    return ""


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
    side = new.checkpoint.side(name)
    if side is None or not math.isfinite(side.value):
        return Finding(name, CANNOT_TELL, f"{name} is not measured for {new.label}, or is not a number: evaluate it")
    interval = new.checkpoint.interval(name)
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


class AtLeast(Bounds):
    """The lowest values that are allowed: `at_least: {bench/mmlu/cloze/acc: 0.3}`."""

    name: ClassVar[str] = "at_least"
    sign: ClassVar[int] = 1


class AtMost(Bounds):
    """The highest values that are allowed: `at_most: {heldout/bpb/code: 1.2}`."""

    name: ClassVar[str] = "at_most"
    sign: ClassVar[int] = -1
