"""The test of one metric between two checkpoints: difference (paired by question or document, or by two standard
errors), interval, p-value and verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.core.statistics.decisions import TABLE, Method, correct, tost
from argosy.core.statistics.intervals import normal_interval, quantile, share_interval, t_quantile
from argosy.core.statistics.paired import Interval, compare_items, paired_ratio_test
from argosy.evidence.compare.metrics import UNDECLARED, Kind
from argosy.evidence.results.rows import Rows, shared_suite
from argosy.evidence.results.values import Value, shared, total

ALPHA = 0.05
SAME_VALUE = 1e-4  # rows are rounded; further apart, the metric is not made of them
OTHER_TOKENS = "another suite, another tokenizer or other documents"
OTHER_QUESTIONS = "other questions of the same names"
NOTHING_IN_COMMON = "no questions in common"
FLIPS, FEW_DRAWN, MORE_DRAWS = "sign flips", 0.002, 40_000
MANY = 10_000  # degrees of freedom of an error that is taken as known
Pairs = list[tuple[Value, Value]]


@dataclass(frozen=True)
class Side:
    """A metric of one checkpoint: its value, its standard error (NaN: unknown), the values that it is the mean of, and
    their number (0: unknown)."""

    value: float
    stderr: float = math.nan
    values: Mapping[str, Value] | None = None
    count: int = 0

    @property
    def items(self) -> int:
        """The number of items that the values are about, or of the values where no rows are at hand; 0: unknown."""
        known = [n for n in (self.count, len({v.item for v in (self.values or {}).values()})) if n]
        return min(known, default=0)

    @property
    def units(self) -> int:
        """The number of what is independent, such as facts of which each has several statements; 0: unknown."""
        known = [n for n in (self.items, len({v.unit for v in (self.values or {}).values()})) if n]
        return min(known, default=0)

    def interval(self, share: bool) -> tuple[float, float] | None:
        """The interval of 95 %; None where the error is not known.

        A share gets Wilson's with the effective number of answers (`share_interval`): questions made of one item are
        not independent. With one question an item it is Wilson's own. Others get 1.96 standard errors."""
        n = self.count or len(self.values or ())
        if not math.isfinite(self.value) or not math.isfinite(self.stderr) or not n:
            return None
        if share and 0 <= self.value <= 1:
            return share_interval(self.value, self.stderr, n, self.items)
        return normal_interval(self.value, self.stderr)

    def error(self, share: bool) -> float:
        """The standard error; of a share that is 0 or 1, as if one more answer had been right and one wrong: that all
        of a few agree does not say that all do (Agresti and Coull, 1998)."""
        if self.stderr > 0 or not share or math.isnan(self.stderr):
            return self.stderr
        shifted = (min(1.0, abs(self.value)) * self.count + 1) / (self.count + 2)
        return math.sqrt(shifted * (1 - shifted) / (self.count + 2)) if self.count else math.nan


@dataclass(frozen=True)
class Tested:
    """A difference: its interval of 95 %, its standard error with degrees of freedom, its p-value, and of how many."""

    difference: Interval
    stderr: float
    degrees: int
    p_value: float | None
    n: int = 0
    least: float = 0.0
    """the smallest p-value that the test can reach with so many independent items, however different the two are"""
    items: int = 0
    """number of items that the `n` questions are about; this and the next two are known of shares of right answers"""
    gained: int = 0
    """number of items that the second answers more often right"""
    lost: int = 0
    """number of items that it answers less often right"""


@dataclass(frozen=True)
class Contrast:
    """A metric from `first` to `second`; the difference is second minus first, in the metric's own unit. Of a metric
    that is better near 0 it is that of the distances from 0."""

    name: str
    kind: Kind
    first: str
    second: str
    before: float
    after: float
    tested: Tested
    how: str
    """`paired` (the same questions or documents), `unpaired` (two standard errors), or why it could not be tested"""
    asked: int = 0
    """the larger number of questions or documents that one of the two was asked"""
    p_adjusted: float | None = None
    """the p-value after the correction over all contrasts of one family"""
    otherwise: int = 0
    """questions of both that are left out, since they were asked in other words, with other examples or options"""

    @property
    def difference(self) -> Interval:
        """Second minus first."""
        return self.tested.difference

    @property
    def verdict(self) -> str:
        """`better` or `worse` (beyond noise, and by the metric's margin or more), `changed` (so, where neither way is
        better), `same` (none as large as the margin), `cannot tell` (one may be, or not), or `untested`."""
        if self.p_adjusted is None:
            return "untested"
        margin = self.kind.matters or 0.0
        if self.shown and abs(self.difference.value) >= margin:
            if not self.kind.sign:
                return "changed"
            return "better" if self.difference.value * self.kind.sign > 0 else "worse"
        return "same" if self.most < margin else "cannot tell"

    @property
    def shown(self) -> bool:
        """Whether it is beyond noise, however small."""
        return self.p_adjusted is not None and self.p_adjusted < ALPHA

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
        most = max(map(abs, tost(t.difference.value, t.stderr, t.degrees)))
        return min(1.0, most) if self.kind.share else most

    @property
    def importance(self) -> float:
        """The size of the difference, in units of what matters; where that is unknown, in halves of its interval."""
        half = (self.difference.high - self.difference.low) / 2
        unit = self.kind.matters or (half if half > 0 else 1.0)
        return abs(self.difference.value) / unit if math.isfinite(unit * self.difference.value) else 0.0


def paired(pairs: Pairs, share: bool) -> Tested:
    """Test shares of right answers item by item (argosy.core.statistics.paired: compare_items), others, such as
    probabilities, and losses over lengths, by the t test of a ratio, with independent units as its observations."""
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
    return Tested(found, (found.high - found.low) / 2 / t_quantile(0.95, degrees), degrees, p_value, len(pairs))


def _shares(pairs: Pairs) -> Tested:
    """Test answers, of which those to one item are related: the difference is that of the metric, over answers."""
    before, after = ([pair[side].value for pair in pairs] for side in (0, 1))
    units, gains = [a.unit for a, _ in pairs], dict.fromkeys((a.item for a, _ in pairs), 0.0)
    for a, b in pairs:
        gains[a.item] += b.value - a.value
    found = compare_items(before, after, units)
    if found.test == FLIPS and found.p_value < FEW_DRAWN:  # the draws are the limit, and a correction needs more
        found = compare_items(before, after, units, draws=MORE_DRAWS)
    # All differ the same way; sign flips of many are drawn, and the observed one counts.
    drawn = 1 / (MORE_DRAWS + 1) if found.test == FLIPS and found.clusters > 12 else 0.0
    return Tested(Interval(found.value, found.low, found.high), found.stderr if found.clusters > 1 else math.inf,
                  max(1, found.clusters - 1), found.p_value, len(pairs),
                  max(2.0 ** (1 - found.clusters), drawn), len(gains),
                  sum(gain > 0 for gain in gains.values()), sum(gain < 0 for gain in gains.values()))


def independent(difference: float, error: float) -> Tested:
    """Test two values by the standard error of their difference, taken as known."""
    half = quantile(0.95) * error
    p_value = math.erfc(abs(difference) / error / math.sqrt(2)) if error > 0 else float(difference == 0)
    return Tested(Interval(difference, difference - half, difference + half), error, MANY, p_value)


def untested(difference: float) -> Tested:
    return Tested(Interval(difference, math.nan, math.nan), math.nan, 1, None)


def distance(found: Tested, values: tuple[float, float], errors: Sequence[float]) -> Tested:
    """Turn the test of two values into that of their distances from 0.

    On one side of 0 it is that difference, or its reverse. On two sides it is tested with the sum of the two standard
    errors, which is the largest that it can have, however related the two are; without these it cannot be tested."""
    before, after = values
    if before * after >= 0:
        d = found.difference
        return found if before + after >= 0 else replace(found, difference=Interval(-d.value, -d.high, -d.low))
    moved = abs(after) - abs(before)
    if not all(map(math.isfinite, errors)):
        return untested(moved)
    return replace(independent(moved, math.fsum(errors)), n=found.n)


def alike(name: str, first: Side, second: Side, before: Rows, after: Rows) -> tuple[Side, Side]:
    """Take held-out text as one suite measured it for both, of several the second's newest; others as they are."""
    suite = shared_suite(name, before, after)
    return _of_suite(name, suite, first, before), _of_suite(name, suite, second, after)


def _of_suite(name: str, suite: str, side: Side, rows: Rows) -> Side:
    if not suite or suite == rows.suites(name)[-1]:
        return side
    values = rows.values(name, suite)
    return Side(total(values), math.nan, values, len(values)) if values else side


def contrast(name: str, kind: Kind, labels: tuple[str, str], first: Side, second: Side) -> Contrast:
    """Compare one metric: paired where both sides' rows make it, else by the standard errors, else untested."""
    values = (first.value, second.value)
    pairs, otherwise = _pairs(name, first, second)

    def no_test(why: str) -> Contrast:
        return Contrast(name, kind, *labels, *values, untested(second.value - first.value), why, otherwise=otherwise)

    if not all(map(math.isfinite, values)):
        return no_test("a value is not a number")
    if not kind.declared:
        return no_test(UNDECLARED)
    if isinstance(pairs, str):
        return no_test(pairs)
    errors = [side.error(kind.share) for side in (first, second)]
    if pairs:
        asked = max(len(first.values or ()), len(second.values or ()))
        tested, how = paired(pairs, kind.share), "paired"
        if len(pairs) < asked:  # the difference is of these alone, and so are the values beside it
            values = (total({n: a for n, (a, _) in enumerate(pairs)}), total({n: b for n, (_, b) in enumerate(pairs)}))
    elif not math.isfinite(math.hypot(*errors)):
        return no_test("no standard error")
    else:
        asked, how = 0, "unpaired"
        tested = independent(second.value - first.value, math.hypot(*errors))
    if kind.centred:
        tested = distance(tested, values, errors)
    elif kind.share:
        low, high = (min(1.0, max(-1.0, end)) for end in (tested.difference.low, tested.difference.high))
        tested = replace(tested, difference=Interval(tested.difference.value, low, high))  # shares, whatever the method
    return Contrast(name, kind, *labels, *values, tested, how, asked, otherwise=otherwise)


def corrected(found: Sequence[Contrast], method: Method = TABLE) -> list[Contrast]:
    """Contrasts of one family, with their p-values corrected over all of them."""
    adjusted = correct({n: c.tested.p_value for n, c in enumerate(found) if c.tested.p_value is not None}, method)
    return [replace(c, p_adjusted=adjusted.get(n)) for n, c in enumerate(found)]


def _pairs(name: str, first: Side, second: Side) -> tuple[list[tuple[Value, Value]] | str, int]:
    """Pair the values of both; none where the rows do not make the metric; why, where they cannot be compared. And the
    number of those asked otherwise."""
    if not (first.values and second.values and _makes(first) and _makes(second)):
        return [], 0
    both = shared(first.values, second.values)
    if not both.keys and not both.otherwise:
        return NOTHING_IN_COMMON, 0
    if not both.keys or both.others:
        return OTHER_TOKENS if name.startswith("heldout/") else OTHER_QUESTIONS, both.otherwise
    return [(first.values[key], second.values[key]) for key in both.keys], both.otherwise


def _makes(side: Side) -> bool:
    return bool(side.values) and abs(total(side.values or {}) - side.value) <= SAME_VALUE * max(1.0, abs(side.value))
