"""The trend of a metric over training (Kendall's rank correlation), and its signal over its noise.

Heineman et al., "Signal and Noise" (2025): a benchmark is good for decisions where models are further apart (signal)
than the last checkpoints of one training run are among themselves (noise)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_EXACT = 60  # points up to which the p-value is counted out, where there are no ties


@dataclass(frozen=True)
class Trend:
    """Kendall's tau-b (-1 to 1) and its two-sided p-value; tau is 0 where one of both never changes."""

    tau: float
    p_value: float
    n: int


def kendall(x: Sequence[float], y: Sequence[float]) -> Trend:
    """Kendall's tau-b (1945) of paired values, such as tokens and a metric; the p-value is exact without ties (up to 60
    points), else of the normal distribution.

    Raises ValueError: lengths differ."""
    from scipy.stats import kendalltau

    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} values; give pairs")
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Trend(0.0, 1.0, len(x))
    exact = len(x) <= _EXACT and len(set(x)) == len(set(y)) == len(x)
    found = kendalltau(x, y, method="exact" if exact else "asymptotic")
    return Trend(float(found.statistic), float(found.pvalue), len(x))


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
    """A metric over one training run. Runs of one `model` differ by seed alone."""

    model: str
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
    """the largest difference between models' ends (means of their last checkpoints); NaN for one model"""
    gain: float
    """the largest change from a run's first checkpoint to its end; NaN where no run has two"""
    steps: float
    """standard deviation of the last checkpoints around their line, over all runs; NaN with fewer than 3 degrees of
    freedom together (five checkpoints of one run, or three of each of three runs)"""
    seeds: float
    """standard deviation of the ends of one model's seeds, over all models; NaN without seeds"""
    items: float
    """mean standard error of the last checkpoints: what other items would have changed"""

    @property
    def signal(self) -> float:
        """Between models where there are several, else over training."""
        return self.gain if math.isnan(self.spread) else self.spread

    @property
    def noise(self) -> float:
        """The larger one of steps and seeds; the items' error where neither is known."""
        known = [value for value in (self.steps, self.seeds) if not math.isnan(value)]
        return max(known) if known else self.items

    @property
    def ratio(self) -> float:
        """Signal over noise; infinite where nothing moves but the signal."""
        if math.isnan(self.signal) or math.isnan(self.noise):
            return math.nan
        return self.signal / self.noise if self.noise > 0 else (math.inf if self.signal > 0 else 0.0)


def signal_to_noise(curves: Sequence[Curve], last: int = LAST) -> SignalToNoise:
    """Signal and noise of one metric, in its own unit. Noise is around a straight line through the last checkpoints, so
    that a metric that still improves is not called noisy.

    Raises ValueError: there is no curve, or one without points."""
    if not curves or not all(curve.points for curve in curves):
        raise ValueError("signal and noise need curves with at least one point each")
    by_model: dict[str, list[float]] = {}
    for curve in curves:
        by_model.setdefault(curve.model, []).append(curve.end)
    centres = [math.fsum(ends) / len(ends) for ends in by_model.values()]
    gains = [abs(c.end - c.points[0].value) for c in curves if len(c.points) > 1]
    errors = [c.points[-1].stderr for c in curves if not math.isnan(c.points[-1].stderr)]
    return SignalToNoise(
        spread=max(centres) - min(centres) if len(centres) > 1 else math.nan,
        gain=max(gains, default=math.nan),
        steps=_pooled([_around_line(c.points[-last:]) for c in curves], LEAST_DEGREES),
        seeds=_pooled([(float(np.var(ends, ddof=1)), len(ends) - 1) for ends in by_model.values() if len(ends) > 1]),
        items=math.fsum(errors) / len(errors) if errors else math.nan,
    )


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


def _pooled(found: Sequence[tuple[float, int]], least: int = 1) -> float:
    degrees = sum(each for _, each in found)
    return math.sqrt(math.fsum(v * d for v, d in found) / degrees) if degrees >= least else math.nan
