"""A confidence interval for any metric of an evaluation, from its value, standard error and count."""

from __future__ import annotations

import math

from argosy.report.checkpoints import Checkpoint
from argosy.statistics import normal_interval, wilson

_SHARES = ("acc", "consistency", "first", "top5")  # metrics that are shares of right or wrong things


def is_share(name: str) -> bool:
    """Whether the metric is the share of cases in which something holds."""
    last = name.rpartition("/")[2]
    return last.startswith(_SHARES[:2]) or last.endswith(_SHARES[2:])


def interval(checkpoint: Checkpoint, name: str, level: float = 0.95) -> tuple[float, float] | None:
    """The interval of a metric; None where its error is not known.

    A share gets Wilson's interval with the effective sample size, n divided by the design effect (Dean and Pagano,
    "Evaluating Confidence Interval Methods for Binomial Proportions in Clustered Surveys", 2015): questions made
    of one item are not independent. With one question an item it is Wilson's own. Others: 1.96 standard errors.
    """
    value, stderr, n = (found.get(name) for found in (checkpoint.metrics, checkpoint.stderr, checkpoint.counts))
    if value is None or stderr is None or not math.isfinite(stderr) or not n:
        return None
    if not is_share(name) or not 0 <= value <= 1:
        return normal_interval(value, stderr, level)
    spread = value * (1 - value)
    effective = spread / stderr**2 + 1 if stderr > 0 and spread > 0 else float(_items(checkpoint, name) or n)
    effective = min(effective, float(n))
    whole = max(1, math.floor(effective + 0.5))
    return wilson(value * whole, whole, level)


def _items(checkpoint: Checkpoint, name: str) -> int | None:
    """How many items the benchmark metric is of, where the rows say so."""
    parts = name.split("/")
    if len(parts) != 4:
        return None
    answers = checkpoint.answers.get((parts[1], parts[2]))
    return len(answers.by_item) if answers else None
