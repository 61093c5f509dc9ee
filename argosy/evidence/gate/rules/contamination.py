"""A checkpoint that has seen the test is not promoted for knowing it."""

import math
from typing import ClassVar

from pydantic import Field

from argosy.core.statistics.contamination import default_calibration
from argosy.corpus.text.display import plain
from argosy.evidence.gate.rules import CANNOT_TELL, FAILS, HOLDS, Finding, Rule, matching
from argosy.evidence.gate.subject import Subject
from argosy.evidence.results.contamination import GAPS, MEMORISATION, PLAIN, contamination_of, tasks_of


class Contaminated(Rule):
    """The calibrated probability that a benchmark was in the training text is below a bound."""

    name: ClassVar[str] = "contamination"
    below: float = Field(0.5, gt=0, le=1)
    """the bound (even odds before the evidence)"""
    tasks: tuple[str, ...] = ("*",)
    """benchmarks or patterns; default all with evidence"""
    reference: bool = False
    """whether to take off the score of the reference, which must be clean, on the same items; without one nothing is"""

    def check_fields(self) -> None:
        most = default_calibration().most
        if self.below > most:
            raise ValueError(f"below is {self.below:g}, allowed: up to {math.floor(most * 1000) / 1000:g}, the largest "
                             "probability that the calibration gives: beyond, nothing ever fails")

    def look(self, new: Subject, reference: Subject | None, alpha: float) -> list[Finding]:
        named = {task for task, _ in new.rows.groups}.intersection(self.tasks)  # with evidence or without
        names, none = matching(self.tasks, [*_expected(new, reference), *sorted(named)])
        return [self._one(name, new, reference if self.reference else None) for name in names] + [
            Finding(pattern, CANNOT_TELL, f"no benchmark {pattern} of {new.label} has what the contamination score is "
                    "made of: evaluate it with a suite that has memorisation: {k: 3}") for pattern in none]

    def _one(self, task: str, new: Subject, reference: Subject | None) -> Finding:
        found = contamination_of(new.rows, task, reference.rows if reference is not None else None)
        if isinstance(found, str):
            failed = [f"{where} failed for {new.label}: {why}" for where, why in new.failed.items()
                      if _task(where) == task]
            return Finding(task, CANNOT_TELL, "; ".join([found, *failed]))
        text = (f"{task}: contaminated with probability {plain(found.probability)}, score {found.score:+.3f} "
                f"[{found.low:+.3f}, {found.high:+.3f}], p {found.p_value:.2g}, {found.items} items"
                + (f" ({found.left_out} left out: their right option's place is rare)" if found.left_out else "")
                + (f", less what {reference.label} has" if reference is not None else "")
                + f"; wanted below {self.below:g}")
        numbers = {"probability": found.probability, "score": found.score, "low": found.low, "high": found.high,
                   "p_value": found.p_value, "items": float(found.items)}  # fmt: skip
        if math.isnan(found.probability):
            return Finding(task, CANNOT_TELL, text)
        return Finding(task, HOLDS if found.probability < self.below else FAILS, text, numbers)


def _expected(new: Subject, reference: Subject | None) -> list[str]:
    """Benchmarks with evidence of the new checkpoint or of the reference, and those that failed for the new one, so
    that what is missing is not passed over; of these the reference may have shown that they have none."""
    known = {*tasks_of(new.rows), *(tasks_of(reference.rows) if reference else ())}
    none = {task for task, _ in reference.rows.groups} - known if reference else set()
    return sorted(known | {task for where in new.failed if (task := _task(where)) and task not in none})


def _task(where: str) -> str:
    """The benchmark that failed, in whole or in a form that is evidence; "" for anything else."""
    kind, _, rest = where.partition("/")
    task, _, form = rest.partition("/")
    return task if kind == "bench" and form in ("", PLAIN, MEMORISATION, *GAPS) else ""
