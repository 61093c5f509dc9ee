"""One metric of two checkpoints: the difference with its interval, its p-value, and what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.comparison.kinds import Kind, kind_of
from argosy.comparison.rows import Rows, Value, shared_suite, total
from argosy.statistics import Interval, compare_items, paired_ratio_test, tost
from argosy.statistics.intervals import quantile

ALPHA = 0.05
TINY = 0.1  # of a margin: below, a difference is none, however sure it is
SAME_VALUE = 1e-4  # rows are rounded; further apart, the metric is not made of them
FLIPS, FEW_DRAWN, MORE_DRAWS = "sign flips", 0.002, 40_000
MANY = 10_000  # degrees of freedom of an error that is taken as known
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
        shifted = (self.value * self.count + 1) / (self.count + 2)
        return math.sqrt(shifted * (1 - shifted) / (self.count + 2)) if self.count else math.nan


@dataclass(frozen=True)
class Tested:
    """A difference: its interval of 95 %, its standard error with degrees of freedom, its p-value, and of how many.

    `least`: the smallest p-value that the test can reach with so many independent items, however different the two are.
    """

    difference: Interval
    stderr: float
    degrees: int
    p_value: float | None
    n: int = 0
    least: float = 0.0


@dataclass(frozen=True)
class Contrast:
    """A metric from `first` to `second`; the difference is second minus first, in the metric's own unit.

    Attributes:
        how: `paired` (the same questions or documents), `unpaired` (two standard errors, independent), or why it
            could not be tested.
        asked: the larger number of questions or documents that one of the two was asked.
        p_adjusted: by Benjamini and Hochberg's method, over all contrasts that are shown together.
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
        return max(abs(found.low), abs(found.high))

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
        return Contrast(name, *labels, *values, _untested(*values), "a value is not a number")
    share, pairs = kind_of(name).share, _pairs(name, first, second)
    if isinstance(pairs, str):
        return Contrast(name, *labels, *values, _untested(*values), pairs)
    if pairs:
        asked = max(len(first.values or ()), len(second.values or ()))
        return Contrast(name, *labels, *values, _paired(pairs, share), "paired", asked)
    error = math.hypot(*(side.error(share) for side in (first, second)))
    if not math.isfinite(error):
        return Contrast(name, *labels, *values, _untested(*values), "no standard error")
    return Contrast(name, *labels, *values, _independent(second.value - first.value, error), "unpaired")


def _pairs(name: str, first: Side, second: Side) -> list[tuple[Value, Value]] | str:
    """What both were asked; nothing where the rows do not make the metric; why, where they cannot be compared."""
    if not (first.values and second.values and _makes(first) and _makes(second)):
        return []
    both = [(first.values[key], second.values[key]) for key in sorted(first.values.keys() & second.values.keys())]
    if not both:
        return "no questions in common"
    if any(None not in (a.check, b.check) and a.check != b.check for a, b in both):
        return OTHER_TOKENS if name.startswith("heldout/") else OTHER_QUESTIONS
    return both


def _makes(side: Side) -> bool:
    return bool(side.values) and abs(total(side.values or {}) - side.value) <= SAME_VALUE * max(1.0, abs(side.value))


def _paired(pairs: Sequence[tuple[Value, Value]], share: bool) -> Tested:
    """Shares of right answers: item by item as the report, the nights and the gate compare. Others, such as
    probabilities, and losses over lengths: the t test of a ratio, with what is independent as its observations."""
    if share and all(a.weight == b.weight == 1.0 and 0 <= a.value <= 1 and 0 <= b.value <= 1 for a, b in pairs):
        return _shares(pairs)
    units: dict[str, list[float]] = {}
    for a, b in pairs:
        sums = units.setdefault(a.unit, [0.0, 0.0, 0.0])
        for place, value in enumerate((a.value, b.value, (a.weight + b.weight) / 2)):
            sums[place] += value
    before, after, below = zip(*units.values(), strict=True)
    if len(units) < 2:
        value = (math.fsum(after) - math.fsum(before)) / math.fsum(below)
        return Tested(Interval(value, -math.inf, math.inf), math.inf, 1, 1.0, len(pairs))
    found, p_value = paired_ratio_test(after, before, below)
    degrees = max(1, math.floor(math.fsum(below) ** 2 / math.fsum(b * b for b in below) + 1e-9) - 1)
    return Tested(found, _error(found, degrees), degrees, p_value, len(pairs))


def _shares(pairs: Sequence[tuple[Value, Value]]) -> Tested:
    items: dict[str, list[tuple[Value, Value]]] = {}
    for a, b in pairs:
        items.setdefault(a.item, []).append((a, b))
    before, after = ([sum(pair[side].value for pair in each) / len(each) for each in items.values()] for side in (0, 1))
    units = [each[0][0].unit for each in items.values()]
    found = compare_items(before, after, units)
    if found.test == FLIPS and found.p_value < FEW_DRAWN:  # the draws are the limit, and a correction needs more
        found = compare_items(before, after, units, draws=MORE_DRAWS)
    return Tested(Interval(found.value, found.low, found.high), found.stderr if found.clusters > 1 else math.inf,
                  max(1, found.clusters - 1), found.p_value, len(pairs), _least(found.clusters, found.test))


def _least(clusters: int, test: str) -> float:
    """Of `compare_items`, where all differ the same way; sign flips of many are drawn, and the observed one counts."""
    return max(2.0 ** (1 - clusters), 1 / (MORE_DRAWS + 1) if test == FLIPS and clusters > 12 else 0.0)


def _independent(difference: float, error: float) -> Tested:
    half = quantile(0.95) * error
    p_value = math.erfc(abs(difference) / error / math.sqrt(2)) if error > 0 else float(difference == 0)
    return Tested(Interval(difference, difference - half, difference + half), error, MANY, p_value)


def _untested(before: float, after: float) -> Tested:
    return Tested(Interval(after - before, math.nan, math.nan), math.nan, 1, None)


def _error(found: Interval, degrees: int) -> float:
    from argosy.statistics import student

    return (found.high - found.low) / 2 / student.quantile(0.95, degrees)
