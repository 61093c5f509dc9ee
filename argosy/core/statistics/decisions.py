"""Decisions about differences: equivalence within a margin, what could have been found, many comparisons at once; and
which metrics to watch, by signal over noise.

Holm (1979) where a decision hangs on it: no false alarm at all, in 95 of 100 families. Benjamini and Hochberg (1995)
for tables to look through: of what they mark, 5 % are false alarms on average, where tests are independent or rise
together. Heineman et al., "Signal and Noise" (2025): a benchmark is good for decisions where models are further apart
(signal) than the last checkpoints of one training run are among themselves (noise)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist
from typing import Literal, TypeVar

import numpy as np

from argosy.core.statistics.intervals import t_quantile

_NORMAL = NormalDist()
LARGE = 400  # degrees of freedom from which the normal distribution is used: t differs by less than 0.3%


def tost(value: float, stderr: float, degrees: int, alpha: float = 0.05) -> tuple[float, float]:
    """The interval that two one-sided t tests of an estimate (TOST) rest on, of level 1 - 2 alpha (Schuirmann, 1987):
    what is wholly within a margin is equivalent, what is wholly outside is different."""
    half = one_sided_quantile(1 - alpha, degrees) * stderr
    return value - half, value + half


def one_sided_quantile(level: float, degrees: int) -> float:
    """The t below which `level` of the distribution is."""
    return _NORMAL.inv_cdf(level) if degrees >= LARGE else t_quantile(2 * level - 1, degrees)


def minimum_detectable_effect(stderr: float, alpha: float = 0.05, wanted: float = 0.8, degrees: int = LARGE) -> float:
    """The true difference that is found in `wanted` of comparisons: what "no difference" does not exclude. Of few
    items or documents it is large: `degrees` are those of the error."""
    return (one_sided_quantile(1 - alpha / 2, degrees) + one_sided_quantile(wanted, degrees)) * stderr


def paired_stderr(first: float, second: float, correlation: float, items: int) -> float:
    """The standard error of a difference of two accuracies, for planning.

    `first`, `second`: the accuracies (0 to 1). `correlation`: of right and wrong answers over items; of checkpoints
    of one line, 0.5 to 0.8 is usual. Raises ValueError: no two models can correlate so, or there are no items."""
    if items < 1:
        raise ValueError(f"items is {items}; allowed: 1 or more")
    both = first * second + correlation * math.sqrt(first * (1 - first) * second * (1 - second))
    if not max(0.0, first + second - 1) - 1e-9 <= both <= min(first, second) + 1e-9:
        raise ValueError(f"accuracies {first} and {second} cannot have a correlation of {correlation}")
    discordant = first + second - 2 * both
    return math.sqrt(max(0.0, discordant - (second - first) ** 2) / items)


def items_needed(effect: float, first: float, correlation: float, alpha: float = 0.05, wanted: float = 0.8) -> int:
    """Return how many items tell `first` from `first + effect` in `wanted` of comparisons (Miller, 2024, section 5)."""
    one = paired_stderr(first, first + effect, correlation, 1)
    return math.ceil((minimum_detectable_effect(one, alpha, wanted) / effect) ** 2)


K = TypeVar("K")
Method = Literal["holm", "benjamini-hochberg"]
DECISION: Method = "holm"
TABLE: Method = "benjamini-hochberg"
NAMES: dict[Method, str] = {DECISION: "Holm", TABLE: "Benjamini and Hochberg"}


def correct(p_values: Mapping[K, float], method: Method = TABLE) -> dict[K, float]:
    """Adjusted p-values of one family; `DECISION` for a gate or a choice, `TABLE` for what is looked through. Raises
    ValueError: a p-value is not within 0..1."""
    wrong = {key: p for key, p in p_values.items() if not 0 <= p <= 1}
    if wrong:
        raise ValueError(f"not p-values (allowed: 0 to 1): {wrong}")
    ordered, n = sorted(p_values, key=lambda key: p_values[key]), len(p_values)
    if method == DECISION:
        found = list(accumulate((min(1.0, p_values[key] * (n - at)) for at, key in enumerate(ordered)), max))
    else:
        down = ((at, ordered[at]) for at in reversed(range(n)))
        found = list(accumulate((p_values[key] * n / (at + 1) for at, key in down), min))[::-1]
    adjusted = dict(zip(ordered, found, strict=True))
    return {key: adjusted[key] for key in p_values}


LEAST_DEGREES = 3
LAST = 5  # checkpoints at the end of a run that its noise is of


@dataclass(frozen=True)
class Point:
    """A checkpoint: tokens seen, the metric, its standard error (NaN: unknown), and what the checkpoint is called."""

    tokens: float
    value: float
    stderr: float = math.nan
    label: str = ""


@dataclass(frozen=True)
class Curve:
    """A metric over one training run."""

    points: tuple[Point, ...]

    @property
    def end(self) -> float:
        """Mean of the last checkpoints."""
        last = self.points[-LAST:]
        return math.fsum(p.value for p in last) / len(last)


@dataclass(frozen=True)
class SignalToNoise:
    """Signal and noise of one metric, in its own unit."""

    spread: float
    """the largest difference between runs' ends (means of their last checkpoints); NaN for one run"""
    gain: float
    """the largest change from a run's first checkpoint to its end; NaN where no run has two"""
    steps: float
    """standard deviation of the last checkpoints around their line, over all runs; NaN with fewer than 3 degrees of
    freedom together (five checkpoints of one run, or three of each of three runs)"""
    items: float
    """mean standard error of the last checkpoints: what other items would have changed"""

    @property
    def signal(self) -> float:
        """Between runs where there are several, else over training."""
        return self.gain if math.isnan(self.spread) else self.spread

    @property
    def noise(self) -> float:
        """Noise of the steps; the items' error where it is not known."""
        return self.items if math.isnan(self.steps) else self.steps

    @property
    def ratio(self) -> float:
        """Signal over noise; infinite where nothing moves but the signal."""
        if math.isnan(self.signal) or math.isnan(self.noise):
            return math.nan
        return self.signal / self.noise if self.noise > 0 else (math.inf if self.signal > 0 else 0.0)


def signal_to_noise(curves: Sequence[Curve]) -> SignalToNoise:
    """Signal and noise of one metric, in its own unit. Noise is around a straight line through the last checkpoints, so
    that a metric that still improves is not called noisy.

    Raises ValueError: there is no curve, or one without points."""
    if not curves or not all(curve.points for curve in curves):
        raise ValueError("signal and noise need curves with at least one point each")
    ends = [curve.end for curve in curves]
    gains = [abs(c.end - c.points[0].value) for c in curves if len(c.points) > 1]
    errors = [c.points[-1].stderr for c in curves if not math.isnan(c.points[-1].stderr)]
    return SignalToNoise(spread=max(ends) - min(ends) if len(ends) > 1 else math.nan, gain=max(gains, default=math.nan),
                         steps=_pooled([_around_line(c.points[-LAST:]) for c in curves]),
                         items=math.fsum(errors) / len(errors) if errors else math.nan)


def _around_line(points: Sequence[Point]) -> tuple[float, int]:
    """Variance around the least-squares line, and its degrees of freedom (0: fewer than 3 points)."""
    if len(points) < 3:
        return 0.0, 0
    x, y = np.array([p.tokens for p in points], float), np.array([p.value for p in points], float)
    x = x - x.mean()
    slope = float(x @ y / (x @ x)) if (x @ x) > 0 else 0.0
    left = y - y.mean() - slope * x
    degrees = len(points) - (2 if (x @ x) > 0 else 1)
    return float(left @ left) / degrees, degrees


def _pooled(found: Sequence[tuple[float, int]]) -> float:
    degrees = sum(each for _, each in found)
    return math.sqrt(math.fsum(v * d for v, d in found) / degrees) if degrees >= LEAST_DEGREES else math.nan
