"""What rules about being worse share: beyond noise, or by less than a margin."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from argosy.comparison.contrast import Contrast
from argosy.comparison.kinds import kind_of
from argosy.comparison.text import unit_of
from argosy.gate.rule import CANNOT_TELL, FAILS, HOLDS, Finding
from argosy.gate.subject import Subject, compared, memory
from argosy.statistics import minimum_detectable_effect, tost

NOISE = "noise"
SHARED = 0.98  # of the items that either was asked: what both must have answered for the rest not to matter
Margin = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def not_worse(name: str, new: Subject, reference: Subject, margin: float | None, alpha: float) -> Finding:
    """Whether a metric is not worse beyond noise (margin None: a test), or by less than `margin` in its own unit.

    A margin is held where the one-sided interval of level 1 - alpha excludes it, fails where the interval is wholly
    beyond it, and cannot be told else (non-inferiority; Schuirmann, 1987).
    """
    found = compared(name, new, reference)
    if isinstance(found, str):
        return Finding(name, CANNOT_TELL, f"{name} {found}: evaluate both with the same suite and data")
    better = kind_of(name).better
    if not better:
        return Finding(name, CANNOT_TELL, f"{name}: neither higher nor lower is better, so nothing of it is worse")
    numbers = numbers_of(found)
    if why := undecided(found, max(new.unscored(name), reference.unscored(name))):
        return Finding(name, CANNOT_TELL, f"{change(found)}: {why}", numbers)
    loss = -better * found.difference.value
    known = memory(name, reference, new)
    if margin is None:
        could = minimum_detectable_effect(found.tested.stderr)
        text = f"{change(found)}; a loss of {amount(name, could)} is found in 80 of 100{known}"
        return Finding(name, HOLDS, text, {**numbers, "detectable": could}, found.tested.p_value,
                       FAILS if loss > 0 else HOLDS, found.tested.least)
    bounds = tost(loss, found.tested.stderr, margin, found.tested.degrees, alpha)
    status = HOLDS if bounds.high < margin else FAILS if bounds.low > margin else CANNOT_TELL
    text = f"{change(found)}; may be worse by {amount(name, max(0.0, bounds.high))}, allowed {amount(name, margin)}"
    more = ("; more items would tell" if status == CANNOT_TELL else "") + known
    return Finding(name, status, text + more, {**numbers, "worst": bounds.high, "margin": margin})


def undecided(found: Contrast, unscored: int = 0) -> str:
    """Why a comparison decides nothing, and what to do; "" where it may.

    unscored: items that a side was asked and has no score of.
    """
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
    """`0.512 to 0.534, +0.022 [+0.010, +0.034]`; points for shares."""
    d, name = found.difference, found.name
    scale, unit = 100.0 if kind_of(name).share else 1.0, f" {unit_of(kind_of(name))}".rstrip()
    n = f", {found.tested.n} of {found.asked}" if found.asked else ""
    return (f"{name} {found.before:.4g} to {found.after:.4g}: {scale * d.value:+.3g}{unit} "
            f"[{scale * d.low:+.3g}, {scale * d.high:+.3g}], {found.how}{n}")


def amount(name: str, value: float) -> str:
    """A difference in the metric's unit."""
    kind = kind_of(name)
    return f"{100 * value:.2g} points" if kind.share else f"{value:.2g} {kind.unit}".rstrip()
