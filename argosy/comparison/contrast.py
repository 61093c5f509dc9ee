"""One metric of two checkpoints: the difference with its interval, its p-value, and what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.comparison.kinds import Kind, kind_of
from argosy.comparison.rows import Rows, shared_suite
from argosy.comparison.shared import shared
from argosy.comparison.tested import Tested, distance, independent, paired, possible, untested
from argosy.comparison.values import Value, metric_of, total
from argosy.statistics import Interval, tost

ALPHA = 0.05
TINY = 0.1  # of a margin: below, a difference is none, however sure it is
SAME_VALUE = 1e-4  # rows are rounded; further apart, the metric is not made of them
OTHER_TOKENS = "another suite, another tokenizer or other documents"
OTHER_QUESTIONS = "other questions of the same names"


@dataclass(frozen=True)
class Side:
    """What one checkpoint has of a metric: its value, its standard error (NaN: unknown), the rows it is made of, and of
    how many questions it is (0: unknown)."""

    value: float
    stderr: float = math.nan
    values: Mapping[str, Value] | None = None
    count: int = 0

    def error(self, share: bool) -> float:
        """The standard error; of a share that is 0 or 1, as if one more answer had been right and one wrong: that all
        of a few agree does not say that all do (Agresti and Coull, 1998)."""
        if self.stderr > 0 or not share or math.isnan(self.stderr):
            return self.stderr
        shifted = (min(1.0, abs(self.value)) * self.count + 1) / (self.count + 2)
        return math.sqrt(shifted * (1 - shifted) / (self.count + 2)) if self.count else math.nan


@dataclass(frozen=True)
class Contrast:
    """A metric from `first` to `second`; the difference is second minus first, in the metric's own unit. Of a metric
    that is better near 0 it is that of the distances from 0.

    Attributes:
        how: `paired` (the same questions or documents), `unpaired` (two standard errors, independent), or why it
            could not be tested.
        asked: the larger number of questions or documents that one of the two was asked.
        p_adjusted: by Benjamini and Hochberg's method, over all contrasts that are shown together.
        otherwise: questions of both that are left out, since they were asked in other words, with other examples or
            other options.
    """

    name: str
    first: str
    second: str
    before: float
    after: float
    tested: Tested
    how: str
    asked: int = 0
    p_adjusted: float | None = None
    otherwise: int = 0

    @property
    def kind(self) -> Kind:
        """Of its metric."""
        return kind_of(self.name)

    @property
    def difference(self) -> Interval:
        """Second minus first."""
        return self.tested.difference

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `changed` (neither way is better), `same` (no difference beyond the metric's margin, or
        one beyond noise that is tiny beside it), `cannot tell` (a difference that matters is neither shown nor
        excluded), or `untested`.
        """
        if self.p_adjusted is None:
            return "untested"
        margin = self.kind.margin
        if self.p_adjusted < ALPHA and not (margin and self.most < margin * TINY):
            if not self.kind.better:
                return "changed"
            return "better" if self.difference.value * self.kind.better > 0 else "worse"
        return "same" if margin and self.most < margin else "cannot tell"

    @property
    def leans(self) -> bool:
        """Whether its own interval excludes 0, although the p-value is not small after the correction."""
        return self.verdict in ("same", "cannot tell") and self.difference.low * self.difference.high > 0

    @property
    def most(self) -> float:
        """The largest difference, either way, that two one-sided tests at 5 % (TOST) leave possible."""
        t = self.tested
        if not math.isfinite(t.stderr):
            return math.inf
        found = tost(t.difference.value, t.stderr, 1.0, t.degrees)
        most = max(abs(found.low), abs(found.high))
        return min(1.0, most) if self.kind.share else most

    @property
    def importance(self) -> float:
        """How large the difference is, in units of what matters; where that is unknown, in halves of its interval."""
        half = (self.difference.high - self.difference.low) / 2
        unit = self.kind.margin or (half if half > 0 else 1.0)
        return abs(self.difference.value) / unit if math.isfinite(unit * self.difference.value) else 0.0


def alike(name: str, first: Side, second: Side, before: Rows, after: Rows) -> tuple[Side, Side]:
    """Held-out text as one suite measured it for both sides, of several the second's newest; others as they are."""
    suite = shared_suite(name, before, after)
    return _of_suite(name, suite, first, before), _of_suite(name, suite, second, after)


def _of_suite(name: str, suite: str, side: Side, rows: Rows) -> Side:
    if not suite or suite == rows.suites(name)[-1]:
        return side
    values = rows.values(name, suite)
    return Side(total(values), math.nan, values, len(values)) if values else side


def contrast(name: str, labels: tuple[str, str], first: Side, second: Side) -> Contrast:
    """Compare one metric: paired where both sides' rows make it, else by the standard errors, else untested."""
    values = (first.value, second.value)
    if not all(map(math.isfinite, values)):
        return Contrast(name, *labels, *values, untested(*values), "a value is not a number")
    kind, (pairs, otherwise) = kind_of(name), _pairs(name, first, second)
    if isinstance(pairs, str):
        return Contrast(name, *labels, *values, untested(*values), pairs, otherwise=otherwise)
    errors = [side.error(kind.share) for side in (first, second)]
    if pairs:
        asked = max(len(first.values or ()), len(second.values or ()))
        tested, how = paired(pairs, kind.share), "paired"
        if len(pairs) < asked:  # the difference is of these alone, and so are the values beside it
            values = (metric_of([a for a, _ in pairs]), metric_of([b for _, b in pairs]))
    elif not math.isfinite(math.hypot(*errors)):
        return Contrast(name, *labels, *values, untested(*values), "no standard error")
    else:
        asked, how = 0, "unpaired"
        tested = independent(second.value - first.value, math.hypot(*errors))
    if kind.centred:
        tested = distance(tested, values, errors)
    elif kind.share:
        tested = possible(tested)
    return Contrast(name, *labels, *values, tested, how, asked, otherwise=otherwise)


def _pairs(name: str, first: Side, second: Side) -> tuple[list[tuple[Value, Value]] | str, int]:
    """What both were asked; nothing where the rows do not make the metric; why, where they cannot be compared. And how
    many were asked otherwise."""
    if not (first.values and second.values and _makes(first) and _makes(second)):
        return [], 0
    both = shared(first.values, second.values)
    if not both.keys and not both.otherwise:
        return "no questions in common", 0
    if not both.keys or both.others:
        return OTHER_TOKENS if name.startswith("heldout/") else OTHER_QUESTIONS, both.otherwise
    return [(first.values[key], second.values[key]) for key in both.keys], both.otherwise


def _makes(side: Side) -> bool:
    return bool(side.values) and abs(total(side.values or {}) - side.value) <= SAME_VALUE * max(1.0, abs(side.value))


