"""The best learning rate and its power law, on losses that a known law makes."""

import numpy as np
import pytest

from argosy.evidence.sweep.fit import Curve, Noise, fit_law, fit_optimum, residual_noise, seed_noise, vertex

EXPONENT, AT_A_MILLION = -0.35, 3e-3  # the law that the losses are made by
SIZES = (1e6, 4e6, 16e6)
RATES = tuple(3e-4 * 2.0**step for step in range(8))


def best_rate(parameters: float) -> float:
    return AT_A_MILLION * (parameters / 1e6) ** EXPONENT


def curve(parameters: float, runs: np.ndarray) -> Curve:
    return Curve(parameters, RATES, tuple(runs.mean(axis=0)), (len(runs),) * len(RATES))


def losses(parameters: float, rng: np.random.Generator, sd: float, seeds: int) -> np.ndarray:
    """[seed, learning rate]: a parabola over the logarithm around the law's rate, with noise."""
    exact = 2.5 + 0.08 * np.log(np.array(RATES) / best_rate(parameters)) ** 2
    return exact + sd * rng.standard_normal((seeds, len(RATES)))


def test_a_vertex_is_that_of_a_polynomial_fitted_by_numpy() -> None:
    runs = losses(1e6, np.random.default_rng(1), 0.01, 2)
    found = curve(1e6, runs)
    around = slice(found.best - 2, found.best + 3)
    square, linear, _ = np.polyfit(np.log(RATES[around]), runs.mean(axis=0)[around], 2)
    assert vertex(found) == pytest.approx(np.exp(-linear / (2 * square)))


def test_without_noise_the_law_is_found_exactly() -> None:
    curves = [curve(size, losses(size, np.random.default_rng(0), 0.0, 1)) for size in SIZES]
    law = fit_law(curves, [Noise(1e-9, 10)] * len(SIZES))
    assert law.exponent.value == pytest.approx(EXPONENT, abs=1e-6)
    assert law.at(1e9).value == pytest.approx(best_rate(1e9), rel=1e-5)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held, trials = np.zeros(3), 100
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        runs = {size: losses(size, rng, 0.01, 3) for size in SIZES}
        curves = [curve(size, each) for size, each in runs.items()]
        noises = [seed_noise(each.T.tolist()) for each in runs.values()]
        law, one = fit_law(curves, noises, draws=300), fit_optimum(curves[0], noises[0], draws=300)
        far, truth = law.at(1e9), best_rate(1e9)
        held += (law.exponent.low <= EXPONENT <= law.exponent.high, far.low <= truth <= far.high,
                 one.low <= best_rate(1e6) <= one.high)
    assert (held / trials > 0.88).all()
    assert (held / trials < 1).all()  # nor are they so wide that they say nothing


def test_the_noise_of_seeds_is_pooled_and_what_a_parabola_leaves_over_stands_in_for_it() -> None:
    runs = losses(1e6, np.random.default_rng(5), 0.02, 300)
    found = seed_noise(runs.T.tolist())
    assert (found.sd, found.df) == (pytest.approx(np.sqrt(runs.var(axis=0, ddof=1).mean())), 299 * len(RATES))
    single = [curve(1e6, losses(1e6, np.random.default_rng(seed), 0.02, 1)) for seed in range(300)]
    left = residual_noise([each for each in single if len(each.means[each.window]) == 5])
    assert left.sd == pytest.approx(0.02, rel=0.15)  # the lowest of the points is chosen, which costs it a little
    assert not residual_noise([Curve(1e6, RATES[:3], (2.0, 1.0, 2.0), (1, 1, 1))]).known
