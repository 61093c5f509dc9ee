"""Equivalence, power and corrections, against scipy and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from argosy.core.statistics import decisions
from argosy.core.statistics.decisions import DECISION, Curve, Point, correct, paired_stderr, signal_to_noise


@pytest.mark.parametrize("n", [8, 60, 900])
@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_equivalence_is_the_larger_of_two_one_sided_t_tests(n: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, n), rng.normal(shift, 1, n)
    expected = max(stats.ttest_1samp(b - a, -0.5, alternative="greater").pvalue,
                   stats.ttest_1samp(b - a, 0.5, alternative="less").pvalue)  # fmt: skip
    low, high = decisions.tost(float((b - a).mean()), stats.sem(b - a), n - 1)
    bounds = stats.ttest_1samp(b - a, 0).confidence_interval(0.9)
    assert (low, high) == pytest.approx((bounds.low, bounds.high), rel=2e-3, abs=1e-4)
    assert (low > -0.5 and high < 0.5) == (expected < 0.05)


def power(effect: float, stderr: float) -> float:
    """The share of comparisons that call a true difference one (two-sided z)."""
    z = stats.norm.ppf(0.975)
    return float(stats.norm.cdf(effect / stderr - z) + stats.norm.cdf(-effect / stderr - z))


def test_power_and_what_can_be_found_agree_with_simulation() -> None:
    error = paired_stderr(0.6, 0.63, 0.6, 2000)
    rng = np.random.default_rng(2)
    both = 0.6 * 0.63 + 0.6 * math.sqrt(0.6 * 0.4 * 0.63 * 0.37)
    cells = rng.multinomial(2000, [both, 0.6 - both, 0.63 - both, 0.4 - 0.63 + both], 4000)
    differences = (cells[:, 2] - cells[:, 1]) / 2000
    assert differences.std() == pytest.approx(error, rel=0.04)
    assert power(0.03, error) == pytest.approx(np.mean(np.abs(differences) > 1.96 * error), abs=0.02)
    assert power(decisions.minimum_detectable_effect(error), error) == pytest.approx(0.8, abs=1e-3)
    needed = decisions.items_needed(0.03, 0.6, 0.6)
    assert power(0.03, paired_stderr(0.6, 0.63, 0.6, needed)) == pytest.approx(0.8, abs=2e-3)
    with pytest.raises(ValueError, match="cannot have a correlation"):
        paired_stderr(0.9, 0.1, 0.9, 100)


def test_corrections_are_scipys_and_holms() -> None:
    values = dict(enumerate(np.random.default_rng(3).random(30) ** 3))
    assert list(correct(values).values()) == pytest.approx(stats.false_discovery_control(list(values.values())))
    assert all(correct(values, DECISION)[key] >= correct(values)[key] for key in values)
    assert correct({"a": 0.01, "b": 0.04, "c": 0.03}, DECISION) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert correct({"a": 0.9, "b": 0.8}, DECISION) == {"a": 1.0, "b": 1.0}
    assert correct({}) == {}
    with pytest.raises(ValueError, match="not p-values"):
        correct({"a": -0.1})


def curve(values: list[float], stderr: float = math.nan) -> Curve:
    return Curve(tuple(Point(1000.0 * (i + 1), v, stderr) for i, v in enumerate(values)))


def test_signal_and_noise_by_hand() -> None:
    straight = signal_to_noise([curve([0.1, 0.2, 0.3, 0.4, 0.5])])
    assert straight.gain == pytest.approx(0.2)  # the mean of the last five less the first
    assert straight.steps == pytest.approx(0, abs=1e-12)
    bumpy = [0.5, 0.52, 0.5, 0.52, 0.5]
    slope, intercept = np.polyfit(range(5), bumpy, 1)
    left = np.array(bumpy) - slope * np.arange(5) - intercept
    assert signal_to_noise([curve(bumpy)]).steps == pytest.approx(math.sqrt(left @ left / 3))
    models = signal_to_noise([curve(bumpy), curve([v + 0.1 for v in bumpy])])
    assert (models.signal, models.ratio) == (pytest.approx(0.1), pytest.approx(0.1 / models.steps))
    assert math.isnan(signal_to_noise([curve([0.3])]).ratio)
    with pytest.raises(ValueError, match="at least one point"):
        signal_to_noise([])
