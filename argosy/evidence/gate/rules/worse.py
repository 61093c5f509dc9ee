"""Rules about a comparison with the reference: not worse, no channel worse, better on."""

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from argosy.core.statistics.decisions import minimum_detectable_effect, tost
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.words import amount, change_text
from argosy.evidence.gate.rules import CANNOT_TELL, FAILS, HOLDS, Finding, Rule, matching, unmeasured
from argosy.evidence.gate.subject import Subject, compared, memory

NOISE = "noise"
SHARED = 0.98  # of the items that either was asked: what both must have answered for the rest not to matter
Margin = Annotated[float, Field(gt=0)]


def not_worse(name: str, new: Subject, reference: Subject, margin: float | None, alpha: float) -> Finding:
    """Whether a metric is not worse beyond noise (margin None: a test), or by less than `margin` in its own unit.

    A margin is held where the one-sided interval of level 1 - alpha excludes it, fails where the interval is wholly
    beyond it, and cannot be told else (non-inferiority; Schuirmann, 1987)."""
    found = decidable(name, new, reference)
    if isinstance(found, Finding):
        return found
    loss, numbers = -found.kind.sign * found.difference.value, numbers_of(found)
    known = memory(name, reference, new)
    if margin is None:
        could = minimum_detectable_effect(found.tested.stderr, alpha, degrees=found.tested.degrees)
        text = f"{change(found)}; a loss of {amount(found, could)} is found in 80 of 100{known}"
        return Finding(name, HOLDS, text, {**numbers, "detectable": could}, found.tested.p_value,
                       FAILS if loss > 0 else HOLDS, found.tested.least)
    low, high = tost(loss, found.tested.stderr, found.tested.degrees, alpha)
    status = HOLDS if high < margin else FAILS if low > margin else CANNOT_TELL
    worst = amount(found, max(0.0, high))
    text = f"{change(found)}; may be worse by {worst}, allowed {amount(found, margin)}"
    more = ("; more items would tell" if status == CANNOT_TELL else "") + known
    return Finding(name, status, text + more, {**numbers, "worst": high, "margin": margin})


def decidable(name: str, new: Subject, reference: Subject) -> Contrast | Finding:
    """The change of a metric from the reference, or the finding that nothing can be told from it, and why."""
    found = compared(name, new, reference)
    if isinstance(found, str):
        return Finding(name, CANNOT_TELL, f"{name} {found}: evaluate both with the same suite and data")
    if not found.kind.sign:
        return Finding(name, CANNOT_TELL, f"{name}: neither way is better, so no change is better or worse")
    if why := undecided(found, max(new.unscored(name), reference.unscored(name))):
        fewer = [_smaller(name, new, reference)] if found.how == "paired" else []
        said = "; ".join([f"{change(found)}: {why}", *filter(None, fewer)])
        return Finding(name, CANNOT_TELL, said, numbers_of(found))
    return found


def _smaller(name: str, *subjects: Subject) -> str:
    """Name the side that was asked less, and the evaluation that asked it; "" where both were asked as many."""
    sides = {subject.label: (side, subject) for subject in subjects
             if (side := subject.checkpoint.side(name)) is not None}
    sizes = {label: len(side.values or ()) for label, (side, _) in sides.items()}
    label = min(sizes, key=lambda each: sizes[each])
    if sizes[label] == max(sizes.values()):
        return ""
    return f"{label} has {sizes[label]}{sides[label][1].source(name)}"


def undecided(found: Contrast, unscored: int = 0) -> str:
    """Why a comparison decides nothing, and what to do; "" where it may.

    unscored: items that a side was asked and has no score of."""
    if found.how != "paired":
        return "not item by item, so its error is not known; evaluate both with the same suite and data"
    asked = max(found.asked, found.tested.n + unscored)
    if found.tested.n < SHARED * asked:
        return (f"both have {found.tested.n} of {asked}, and what is lost may be what is worse; evaluate both with the "
                "same suite and data, and see what was left out")
    if not math.isfinite(found.tested.stderr):
        return "its error is not known from one item, document or passage; more of them would tell"
    return ""


def numbers_of(found: Contrast) -> dict[str, float]:
    """A comparison for programs."""
    d = found.difference
    numbers = {"before": found.before, "after": found.after, "difference": d.value, "low": d.low, "high": d.high,
               "stderr": found.tested.stderr, "n": float(found.tested.n), "asked": float(found.asked)}  # fmt: skip
    if found.tested.p_value is not None:
        numbers["p_value"] = found.tested.p_value
    return numbers


def change(found: Contrast) -> str:
    """The change in words, and how it was tested."""
    n = f", {found.tested.n} of {found.asked}" if found.asked else ""
    return f"{found.name} {change_text(found)}, {found.how}{n}"


class NotWorse(Rule):
    """Metrics are not worse than the reference's, on the same items."""

    name: ClassVar[str] = "not_worse"
    on: tuple[str, ...] = Field(("bench/*/headline/acc",), min_length=1)
    """metrics or patterns; default the headline of each benchmark"""
    beyond: Literal["noise"] | Margin = "noise"
    """`noise` (a test), or a margin in the metric's unit (0.02: two points of accuracy) that must be excluded"""

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        if reference is None:
            return [Finding(", ".join(self.on), HOLDS, "there is no reference yet, so nothing to be worse than")]
        names, none = matching(self.on, reference.names())
        margin = None if self.beyond == NOISE else float(self.beyond)
        return [not_worse(name, new, reference, margin, alpha) for name in names] + [
            unmeasured(pattern, reference.names(), reference.label) for pattern in none]


class NoChannelWorse(Rule):
    """No channel of held-out text costs more bits a byte than the reference's, on the same documents."""

    name: ClassVar[str] = "no_channel_worse"
    beyond: Literal["noise"] | Margin = "noise"
    """`noise` (a test), or so many bits a byte that must be excluded"""
    channels: tuple[str, ...] = ("*",)
    """patterns; default all that the reference has"""

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        if reference is None:
            return [Finding("heldout/bpb", HOLDS, "there is no reference yet, so nothing to be worse than")]
        names, none = matching([f"heldout/bpb/{channel}" for channel in self.channels], reference.names())
        margin = None if self.beyond == NOISE else float(self.beyond)
        return [not_worse(name, new, reference, margin, alpha) for name in names] + [
            Finding(pattern, CANNOT_TELL, f"{pattern} is not measured for {reference.label}: evaluate it with a suite "
                    "that has heldout, such as argosy evaluate CHECKPOINT --suite heldout --tokens DIR")
            for pattern in none]


class BetterOn(Rule):
    """Metrics are better than the reference's beyond noise."""

    name: ClassVar[str] = "better_on"
    on: tuple[str, ...] = Field(("bench/*/headline/acc",), min_length=1)
    """metrics or patterns; default the headline of each benchmark"""
    least: int | None = Field(None, ge=1)
    """number of metrics that must be better (default: all)"""

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """A finding for each metric; where fewer suffice, one for the most improved ones."""
        if reference is None:
            return [Finding(", ".join(self.on), CANNOT_TELL, "there is no reference to be better than")]
        known = sorted({*reference.names(), *new.names()})
        names, none = matching(self.on, known)
        found = [self._one(name, new, reference) for name in names]
        missing = [unmeasured(p, known, f"{new.label} and {reference.label}") for p in none]
        if self.least is None or self.least > len(found):
            return found + missing
        if self.least == len(found):
            return found
        # The k best of n: Bonferroni over the choice, so that the best one by chance is not called better.
        ranked = sorted(found, key=lambda f: (f.p_value is None, f.significant != HOLDS, f.p_value or 0.0))
        n = len(found)
        return [f if f.p_value is None else replace(f, p_value=min(1.0, f.p_value * n), least=min(1.0, f.least * n))
                for f in ranked[: self.least]]

    def _one(self, name: str, new: Subject, reference: Subject) -> Finding:
        contrast = decidable(name, new, reference)
        if isinstance(contrast, Finding):
            return contrast
        gain = contrast.kind.sign * contrast.difference.value
        text = change(contrast) + memory(name, reference, new)
        return Finding(name, FAILS, text, numbers_of(contrast), contrast.tested.p_value,
                       HOLDS if gain > 0 else FAILS, contrast.tested.least)
