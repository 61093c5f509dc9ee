import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from argosy.statistics.intervals import Estimate, mean, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (137, 400), (1, 3000)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_is_scipys(successes: int, n: int, level: float) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson(successes, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_mean_has_the_standard_error_of_scipy() -> None:
    values = [Random(1).gauss(0, 1) for _ in range(50)]
    assert mean(values) == Estimate(pytest.approx(np.mean(values)), pytest.approx(stats.sem(values)), 50)


def test_clusters_of_equal_values_count_once() -> None:
    values = [float(Random(i).random() < 0.4) for i in range(80)]
    repeated = [value for value in values for _ in range(5)]
    clustered = mean(repeated, [index // 5 for index in range(400)])
    assert (clustered.stderr, clustered.n) == (pytest.approx(mean(values).stderr), 400)


def test_one_value_has_no_known_error() -> None:
    assert math.isnan(mean([1.0]).stderr)
    with pytest.raises(ValueError, match="no values"):
        mean([])
    with pytest.raises(ValueError, match="11 successes of 10"):
        wilson(11, 10)
