"""What an evaluation found: metrics with standard errors and counts, a row an item, and what was left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from argosy.errors import InputError, StepError
from argosy.statistics.intervals import Estimate


@dataclass
class Findings:
    """Collected by every kind of evaluation, merged by the step.

    `left_out` counts, by task and reason, items that took no part: broken lines, items that a variant cannot
    make, scores that are not numbers. `failed`: tasks and variants that could not be done at all, and why.
    `again`: those of them that may pass another time (a network that was down, a package that was not there).
    `cut` counts, by task and variant, questions whose beginning the model did not see: they are longer than it.
    `headline`: by task, the variants whose mean is its one number in comparisons.
    `rejects`: records of files that are no items: task, file, place among its records (from 1), reason.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    stderr: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    headline: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    cut: dict[str, int] = field(default_factory=dict)
    rejects: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, estimate: Estimate) -> None:
        """A metric; a value that is not a number is left out and named, an unknown error is not given."""
        if not math.isfinite(estimate.value):
            self.leave_out(name, "not a number", estimate.n)
            return
        self.metrics[name] = estimate.value
        self.counts[name] = estimate.n
        if math.isfinite(estimate.stderr):
            self.stderr[name] = estimate.stderr

    def leave_out(self, where: str, reason: str, n: int = 1) -> None:
        """Count `n` things that took no part."""
        reasons = self.left_out.setdefault(where, {})
        reasons[reason] = reasons.get(reason, 0) + n

    def fail(self, where: str, reason: str, error: Exception | None = None) -> None:
        """Name what could not be done. `error`: why, which says whether it may go better another time."""
        self.failed[where] = reason
        if may_pass(error):
            self.again.add(where)

    def merge(self, other: Findings) -> None:
        """Add what another part found.

        Raises:
            InputError: a metric of the same name is there already.
        """
        if both := sorted(self.metrics.keys() & other.metrics.keys()):
            raise InputError(f"suite: two of its parts measure {both[0]}: give one of them another name")
        self.metrics.update(other.metrics)
        self.stderr.update(other.stderr)
        self.counts.update(other.counts)
        self.rows.extend(other.rows)
        self.rejects.extend(other.rejects)
        self.failed.update(other.failed)
        self.again |= other.again
        self.cut.update(other.cut)
        for task, variants in other.headline.items():
            self.headline[task] = sorted({*self.headline.get(task, ()), *variants})
        for where, reasons in other.left_out.items():
            for reason, n in reasons.items():
                self.leave_out(where, reason, n)


def may_pass(error: BaseException | None) -> bool:
    """Whether the same may go well another time without a change of suite or files: the network, the disk, a package
    that was not there; not wrong input. Of an error of ours its cause decides; a file that is not there is wrong input,
    but where it is one of the Hugging Face Hub that could not be asked."""
    causes = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return any(_is_passing(each, is_cause=each is causes[-1]) for each in causes)


def _is_passing(error: BaseException, *, is_cause: bool) -> bool:
    if isinstance(error, FileNotFoundError):
        return type(error).__module__.startswith("huggingface_hub.")
    return isinstance(error, OSError | ImportError) or (is_cause and isinstance(error, StepError))
