"""A new checkpoint is to be better at something."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from argosy.comparison.kinds import kind_of
from argosy.gate.rule import CANNOT_TELL, FAILS, HOLDS, Finding, Rule, matching, unmeasured
from argosy.gate.subject import Subject, compared, memory
from argosy.gate.worse import change, numbers_of, undecided


class BetterOn(Rule):
    """Metrics are better than the reference's beyond noise.

    `on`: metrics or patterns; default the headline of each benchmark. `least`: of how many (default: of all).
    """

    name: ClassVar[str] = "better_on"
    on: tuple[str, ...] = Field(("bench/*/headline/acc",), min_length=1)
    least: int | None = Field(None, ge=1)

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
        return [f if f.p_value is None else replace(f, p_value=min(1.0, f.p_value * len(found)))
                for f in ranked[: self.least]]

    def _one(self, name: str, new: Subject, reference: Subject) -> Finding:
        contrast = compared(name, new, reference)
        if isinstance(contrast, str):
            return Finding(name, CANNOT_TELL, f"{name} {contrast}: evaluate both with the same suite and data")
        if why := undecided(contrast, max(new.unscored(name), reference.unscored(name))):
            return Finding(name, CANNOT_TELL, f"{change(contrast)}: {why}", numbers_of(contrast))
        gain = kind_of(name).better * contrast.difference.value
        text = change(contrast) + memory(name, reference, new)
        return Finding(name, FAILS, text, numbers_of(contrast), contrast.tested.p_value,
                       HOLDS if gain > 0 else FAILS)
