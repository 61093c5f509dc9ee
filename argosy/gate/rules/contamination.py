"""A checkpoint that has seen the test is not promoted for knowing it."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from argosy.gate.rule import CANNOT_TELL, FAILS, HOLDS, Finding, Rule, matching
from argosy.gate.seen import contamination_of, tasks_of
from argosy.gate.subject import Subject


class Contaminated(Rule):
    """The calibrated probability that a benchmark was in the training text is below a bound.

    `below`: the bound (even odds before the evidence). `tasks`: benchmarks or patterns; default all with evidence.
    """

    name: ClassVar[str] = "contamination"
    below: float = Field(0.5, gt=0, le=1)
    tasks: tuple[str, ...] = ("*",)

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        """A finding for each benchmark."""
        names, none = matching(self.tasks, tasks_of(new.rows))
        return [self._one(name, new) for name in names] + [
            Finding(pattern, CANNOT_TELL, f"no benchmark {pattern} of {new.label} has what the contamination score is "
                    "made of: evaluate it with a suite that has memorisation: {k: 3}") for pattern in none]

    def _one(self, task: str, new: Subject) -> Finding:
        found = contamination_of(new.rows, task)
        if isinstance(found, str):
            return Finding(task, CANNOT_TELL, found)
        text = (f"{task}: contaminated with probability {found.probability:.2f}, score {found.score:+.3f} "
                f"[{found.low:+.3f}, {found.high:+.3f}], p {found.p_value:.2g}, {found.items} items; "
                f"wanted below {self.below:g}")
        numbers = {"probability": found.probability, "score": found.score, "low": found.low, "high": found.high,
                   "p_value": found.p_value, "items": float(found.items)}  # fmt: skip
        if math.isnan(found.probability):
            return Finding(task, CANNOT_TELL, text)
        return Finding(task, HOLDS if found.probability < self.below else FAILS, text, numbers)
