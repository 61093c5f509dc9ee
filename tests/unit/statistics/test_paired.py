import numpy as np
import pytest
from scipy import stats

from argosy.statistics.intervals import Floats
from argosy.statistics.paired import (
    difference_of_differences,
    paired_bootstrap,
    paired_ratio_test,
)


def answers(seed: int, n: int, rate: float) -> list[float]:
    return (np.random.default_rng(seed).random(n) < rate).astype(float).tolist()


def test_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random(200), rng.random(200)
    expected = stats.bootstrap((a - b,), np.mean, method="percentile", rng=0).confidence_interval
    found = paired_bootstrap(a, b)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.006)
    assert found == paired_bootstrap(a, b)


def test_ratio_weighs_long_documents_more() -> None:
    rng = np.random.default_rng(12)
    sizes = rng.integers(50, 500, 300).astype(float)
    base = sizes * rng.normal(1.5, 0.5, 300)
    worse = base + sizes * rng.normal(0.1, 0.05, 300)

    def ratio(a: Floats, b: Floats, s: Floats) -> Floats:
        found: Floats = (a.sum(axis=-1) - b.sum(axis=-1)) / s.sum(axis=-1)
        return found

    expected = stats.bootstrap((worse, base, sizes), ratio, paired=True, method="percentile", rng=0)
    found, p_value = paired_ratio_test(worse, base, sizes)
    bounds = expected.confidence_interval
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high), abs=0.0005)
    assert found.value == pytest.approx((worse - base).sum() / sizes.sum())
    assert p_value < 1e-12
    assert paired_ratio_test(base, base, sizes)[1] == 1.0
    assert paired_ratio_test([2, 3], [1, 2], [1, 1])[1] == 0.5  # two ranks that moved alike prove little
    assert paired_ratio_test([2] * 9, [1] * 9, [1] * 9)[1] == 2**-8  # as two-sided sign test
    with pytest.raises(ValueError, match="all positive"):
        paired_ratio_test([1.0, 2.0], [1.0, 1.0], [1.0, 0.0])


def test_few_documents_of_uneven_lengths_are_called_different_rarely() -> None:
    rng = np.random.default_rng(13)
    called = 0
    for _ in range(1000):
        sizes = rng.lognormal(6, 0.7, 8)
        base = sizes * rng.normal(1.5, 0.5, 8)
        called += paired_ratio_test(base + sizes * rng.normal(0, 0.05, 8), base, sizes)[1] < 0.05
    assert called <= 75  # 50 are expected; the ordinary error of a ratio gives 90


def test_difference_of_differences_finds_a_memorised_lead() -> None:
    honest, variant = answers(5, 400, 0.5), answers(6, 400, 0.5)
    twin_plain, twin_variant = answers(7, 400, 0.95), answers(8, 400, 0.5)
    lead = difference_of_differences(twin_plain, honest, twin_variant, variant)
    assert lead.value == pytest.approx(0.45, abs=0.1)
    assert lead.low > 0
    none = difference_of_differences(honest, answers(9, 400, 0.5), variant, answers(10, 400, 0.5))
    assert none.low < 0 < none.high
