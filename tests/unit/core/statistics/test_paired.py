"""Intervals and paired comparisons, of related items too, against enumerations, scipy and simulations."""

import itertools
import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from argosy.core.statistics.intervals import Estimate, Floats, flipped_at_least, mean, share_interval, wilson
from argosy.core.statistics.paired import compare_items, paired_ratio_test
from argosy.evidence.report.record import rounded


def test_sign_flips_of_few_clusters_are_counted_out() -> None:
    rng = np.random.default_rng(1)
    difference, labels = rng.normal(0.4, 1, 24), np.repeat(np.arange(8), 3)
    sums = [difference[labels == c].sum() for c in range(8)]
    flips = [abs(sum(s * v for s, v in zip(signs, sums, strict=True)))
             for signs in itertools.product((1, -1), repeat=8)]
    expected = np.mean([value >= abs(sum(sums)) - 1e-12 for value in flips])
    assert compare_items([0.0] * 24, difference.tolist(), labels.tolist()).p_value == pytest.approx(expected)


@pytest.mark.parametrize("binary", [True, False])
def test_sign_flips_agree_with_scipy_on_cluster_sums(binary: bool) -> None:
    """Few different values are drawn by their numbers, many one by one: both are the same test."""
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(60), 3)
    difference = rng.integers(-1, 2, 180) + (labels % 3 == 0) if binary else rng.normal(0.15, 1, 180)
    sums = np.bincount(labels, difference.astype(float))
    expected = stats.permutation_test((sums, np.zeros(60)), lambda x, y: np.mean(x - y), permutation_type="samples",
                                      n_resamples=20_000, rng=0)  # fmt: skip
    found = compare_items([0.0] * 180, difference.astype(float).tolist(), labels.tolist(), draws=40_000)
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.012)


def test_a_share_of_related_answers_has_a_wider_interval() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        passages = rng.random(40) < 0.1
        found = mean(np.repeat(passages, 5).astype(float).tolist(), np.repeat(np.arange(40), 5).tolist())
        low, high = share_interval(found.value, found.stderr, found.n, 40)
        covered += low <= 0.1 <= high
    assert 0.92 <= covered / 400 <= 0.99
    found = mean((rng.random(200) < 0.3).astype(float).tolist())
    assert share_interval(found.value, found.stderr, 200) == pytest.approx(wilson(200 * found.value, 200))
    assert share_interval(1.0, 0.0, 20, 4) == pytest.approx(wilson(4, 4))


def test_comparison_takes_mcnemar_for_single_items_and_flips_clusters_of_related_ones() -> None:
    rng = np.random.default_rng(6)
    first, second = (rng.random(300) < 0.5).astype(float), (rng.random(300) < 0.6).astype(float)
    found = compare_items(first.tolist(), second.tolist())
    wins, losses = int((second > first).sum()), int((second < first).sum())
    assert (found.test, found.clusters) == ("McNemar", 300)
    assert found.value == pytest.approx((wins - losses) / 300)
    assert found.p_value == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
    assert found.stderr == pytest.approx(math.hypot(stats.sem(second - first), 1 / 300))
    assert found.low < found.value < found.high
    same = compare_items(first.tolist(), second.tolist(), list(range(300)))
    assert same == found  # clusters of one item are none
    both = compare_items([*first, *first], [*second, *second], [*range(300), *range(300)])  # each item told twice
    assert both.test == "sign flips"
    assert both.p_value == pytest.approx(flipped_at_least(second - first, 0, 10_000), abs=0.02)
    assert (both.low, both.high) == pytest.approx((found.low, found.high), abs=0.01)
    assert found.p_value < 2 * both.p_value


@pytest.mark.parametrize(("groups", "uneven"), [(1, False), (3, False), (10, True)])
def test_intervals_of_few_clusters_cover_the_truth(groups: int, uneven: bool) -> None:
    rng = np.random.default_rng(groups)
    covered = 0
    for _ in range(1000):
        labels = np.repeat(np.arange(groups), rng.integers(6, 15, groups) if uneven else 10)
        differences = rng.normal(size=groups)[labels] + rng.normal(size=len(labels))
        found = compare_items([0.0] * len(labels), differences.tolist(), labels.tolist(), draws=200)
        covered += found.low <= 0 <= found.high
    assert covered >= 930  # of 1000; the bootstrap's percentiles: 120 (1 cluster), 800 (3), 860 (5), 940 (20)


def test_few_clusters_have_the_t_interval_and_one_has_none() -> None:
    rng = np.random.default_rng(7)
    values, labels = rng.normal(0.2, 1, 32).tolist(), [n // 4 for n in range(32)]
    found = compare_items([0.0] * 32, values, labels)
    means = np.reshape(values, (8, 4)).mean(axis=1)
    expected = stats.ttest_1samp(means, 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    alone = compare_items([0.0] * 32, values, [0] * 32)
    assert (alone.low, alone.high) == (-math.inf, math.inf)
    assert rounded({"low": alone.low, "value": 0.5}) == {"low": None, "value": 0.5}  # as JSON has it


def answers(seed: int, n: int, rate: float) -> list[float]:
    return (np.random.default_rng(seed).random(n) < rate).astype(float).tolist()


def test_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random(200), rng.random(200)
    expected = stats.bootstrap((a - b,), np.mean, method="percentile", rng=0).confidence_interval
    found = compare_items(b, a)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.006)
    assert found == compare_items(b, a)


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


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (137, 400), (1, 3000)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_is_scipys(successes: int, n: int, level: float) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson(successes, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_mean_has_the_standard_error_of_scipy_where_clusters_of_equal_values_count_once() -> None:
    values = [Random(1).gauss(0, 1) for _ in range(50)]
    assert mean(values) == Estimate(pytest.approx(np.mean(values)), pytest.approx(stats.sem(values)), 50)
    assert math.isnan(mean([1.0]).stderr)
    values = [float(Random(i).random() < 0.4) for i in range(80)]
    repeated = [value for value in values for _ in range(5)]
    clustered = mean(repeated, [index // 5 for index in range(400)])
    assert (clustered.stderr, clustered.n) == (pytest.approx(mean(values).stderr), 400)

    with pytest.raises(ValueError, match="no values"):
        mean([])
    with pytest.raises(ValueError, match="11 successes of 10"):
        wilson(11, 10)
