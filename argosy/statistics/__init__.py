"""Intervals and tests for comparing checkpoints on the same items; numpy alone. docs/statistics.md"""

from argosy.statistics.balance import balanced_weights
from argosy.statistics.comparison import Paired, compare_items
from argosy.statistics.equivalence import (
    Equivalence,
    equivalence,
    items_needed,
    minimum_detectable_effect,
    paired_stderr,
    power,
    tost,
)
from argosy.statistics.intervals import Estimate, mean, normal_interval, proportion, share_interval, wilson
from argosy.statistics.multiple import benjamini_hochberg, benjamini_yekutieli, holm
from argosy.statistics.paired import (
    Difference,
    Interval,
    cluster_bootstrap,
    difference_of_differences,
    mcnemar,
    paired_bootstrap,
    paired_permutation,
    paired_ratio_test,
)
from argosy.statistics.signal_noise import Curve, Point, SignalToNoise, decision_accuracy, signal_to_noise
from argosy.statistics.trend import Trend, kendall
from argosy.statistics.watch import Watched, worth_watching

__all__ = [
    "Curve",
    "Difference",
    "Equivalence",
    "Estimate",
    "Interval",
    "Paired",
    "Point",
    "SignalToNoise",
    "Trend",
    "Watched",
    "balanced_weights",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "cluster_bootstrap",
    "compare_items",
    "decision_accuracy",
    "difference_of_differences",
    "equivalence",
    "holm",
    "items_needed",
    "kendall",
    "mcnemar",
    "mean",
    "minimum_detectable_effect",
    "normal_interval",
    "paired_bootstrap",
    "paired_permutation",
    "paired_ratio_test",
    "paired_stderr",
    "power",
    "proportion",
    "share_interval",
    "signal_to_noise",
    "tost",
    "wilson",
    "worth_watching",
]
