"""The learning rate at which the loss is lowest, and its power law over parameters, with what noise leaves open.

Near its minimum the loss is a parabola over the logarithm of the learning rate, whose vertex is the optimum (as
Hoffmann et al. 2022, approach 2, take it over parameters). The optima of several sizes are a line in logarithms,
learning_rate = a * parameters^b (Kaplan et al. 2020, appendix D.6; Bi et al. 2024, section 3.1). Intervals are a
parametric bootstrap: losses are drawn around their means, and the variance of the noise itself from what so few runs
tell of it (scaled inverse chi-squared)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from argosy.core.statistics.intervals import Floats as Array
from argosy.core.statistics.intervals import pooled_spread
from argosy.core.statistics.paired import Interval

DRAWS = 2000
LEAST = 3  # learning rates of a parabola
REACH = 2  # points on each side of the best one
LEVEL = 0.95


@dataclass(frozen=True)
class Noise:
    """Standard deviation of the loss of one run, and the degrees of freedom that it is known with."""

    sd: float
    df: int

    @property
    def known(self) -> bool:
        """Whether there is anything that tells it."""
        return self.df > 0


@dataclass(frozen=True)
class Curve:
    """Losses over learning rates of one size, in rising order of the learning rate."""

    parameters: float
    """Without embeddings."""
    rates: tuple[float, ...]
    means: tuple[float, ...]
    runs: tuple[int, ...]

    @property
    def best(self) -> int:
        """Return the index of the lowest loss."""
        return int(np.argmin(self.means))

    @property
    def problem(self) -> str:
        """Return why there is no optimum inside: `few`, `low` or `high` (an edge of the grid); "" where there is."""
        if len(self.rates) < LEAST:
            return "few"
        return "low" if self.best == 0 else "high" if self.best == len(self.rates) - 1 else ""

    @property
    def window(self) -> slice:
        """Return the points of the parabola: the best one and two on each side, as far as there are."""
        return slice(max(0, self.best - REACH), self.best + REACH + 1)


@dataclass(frozen=True)
class Law:
    """learning_rate = exp(intercept) * parameters^exponent."""

    exponent: Interval
    intercept: float
    optima: tuple[Interval, ...]
    """Optimum of each size, in the order of the curves."""
    misfit: float
    """P-value of so large residuals, were it a power law; 1 with two sizes, which a line always meets."""
    draws: Array
    """[draw, (intercept, exponent)]."""

    def at(self, parameters: float) -> Interval:
        """Return the best learning rate of a model of so many parameters, embeddings aside."""
        low, high = _ends(self.draws @ np.array([1.0, np.log(parameters)]))
        return Interval(float(np.exp(self.intercept + self.exponent.value * np.log(parameters))), low, high)


def seed_noise(cells: Sequence[Sequence[float]]) -> Noise:
    """Pool the variance of runs that differ in their seed alone; each cell holds the losses of one setting."""
    return Noise(*pooled_spread(cells))


def residual_noise(curves: Sequence[Curve]) -> Noise:
    """Take what parabolas leave over for noise, where no point has several seeds."""
    squares, df = 0.0, 0
    for curve in curves:
        design, means = _design(curve), np.array(curve.means[curve.window])
        left = means - design @ (np.linalg.pinv(design) @ means)
        squares, df = squares + float(left @ left), df + len(means) - LEAST
    return Noise(float(np.sqrt(squares / df)) if df else 0.0, df)


def fit_optimum(curve: Curve, noise: Noise, draws: int = DRAWS) -> Interval:
    """Return the learning rate at the parabola's vertex. `curve.problem` must be empty, and `noise` known."""
    low, high = _ends(_vertices(curve, noise, draws, np.random.default_rng(0)))
    return Interval(vertex(curve), low, high)


def vertex(curve: Curve) -> float:
    """Return the learning rate at the vertex of the parabola, of the measured means alone."""
    return float(np.exp(_vertex(curve, np.array([curve.means[curve.window]]))[0]))


def fit_law(curves: Sequence[Curve], noise: Sequence[Noise], draws: int = DRAWS) -> Law:
    """Fit the law through the optima of two or more sizes; each curve's `problem` must be empty, its noise known."""
    from scipy.stats import chi2

    rng = np.random.default_rng(0)
    logs = np.stack([_vertices(curve, each, draws, rng) for curve, each in zip(curves, noise, strict=True)], axis=1)
    values = np.log([vertex(curve) for curve in curves])
    design = np.stack([np.ones(len(curves)), np.log([curve.parameters for curve in curves])], axis=1)
    solve = np.linalg.pinv(design)
    intercept, exponent = solve @ values
    found = logs @ solve.T
    low, high = np.quantile(found[:, 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    optima = tuple(Interval(float(np.exp(value)), *_ends(column)) for value, column in zip(values, logs.T, strict=True))
    left = (values - design @ np.array([intercept, exponent])) / np.maximum(logs.std(axis=0), 1e-12)
    misfit = float(chi2.sf(float(left @ left), len(left) - 2)) if len(left) > 2 else 1.0
    return Law(Interval(float(exponent), float(low), float(high)), float(intercept), optima, misfit, found)


def _design(curve: Curve) -> Array:
    x = np.log(curve.rates[curve.window])
    return np.vander(x - x.mean(), 3)


def _vertices(curve: Curve, noise: Noise, draws: int, rng: np.random.Generator) -> Array:
    """Draw the logarithm of the optimum [draw]."""
    means, runs = np.array(curve.means[curve.window]), np.array(curve.runs[curve.window])
    sd = noise.sd * np.sqrt(noise.df / rng.chisquare(noise.df, (draws, 1)))
    return _vertex(curve, means + sd / np.sqrt(runs) * rng.standard_normal((draws, len(means))))


def _vertex(curve: Curve, losses: Array) -> Array:
    """Return the logarithm of each parabola's vertex, within the window; without a minimum, its lowest point's."""
    x: Any = np.log(curve.rates[curve.window])
    square, linear, _ = np.linalg.pinv(_design(curve)) @ losses.T
    lowest = x[losses.argmin(axis=1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(square > 0, x.mean() - linear / (2 * square), lowest)
    return np.asarray(np.clip(at, x[0], x[-1]))


def _ends(logs: Array) -> tuple[float, float]:
    low, high = np.exp(np.quantile(logs, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return float(low), float(high)
