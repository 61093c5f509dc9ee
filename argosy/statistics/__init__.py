"""Intervals and tests for comparing checkpoints on the same items; numpy alone."""

from argosy.statistics.balance import balanced_weights
from argosy.statistics.intervals import Estimate, mean, normal_interval, wilson
from argosy.statistics.multiple import holm
from argosy.statistics.paired import (
    Difference,
    Interval,
    difference_of_differences,
    mcnemar,
    paired_bootstrap,
    paired_permutation,
    paired_ratio_test,
)

__all__ = [
    "Difference",
    "Estimate",
    "Interval",
    "balanced_weights",
    "difference_of_differences",
    "holm",
    "mcnemar",
    "mean",
    "normal_interval",
    "paired_bootstrap",
    "paired_permutation",
    "paired_ratio_test",
    "wilson",
]
