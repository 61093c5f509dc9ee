"""A contamination score as metrics of a LoggedModel, `contamination/<benchmark>/<number>`, and back from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from argosy.comparison.rows import Rows
from argosy.contamination.evidence import seen_of
from argosy.contamination.verdict import Seen
from argosy.statistics.contamination import Contamination

PREFIX = "contamination/"
NUMBERS = ("score", "low", "high", "p_value", "probability", "items", "z")


def contamination_metrics(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By metric's name, the scores of an evaluation's rows, by the shipped calibration; benchmarks without one have
    no metric."""
    return metrics_of(seen_of(Rows(rows)))


def metrics_of(found: Mapping[str, Seen]) -> dict[str, float]:
    """By metric's name, the numbers of these scores."""
    return {f"{PREFIX}{task}/{name}": float(getattr(seen.found, name))
            for task, seen in found.items() if seen.found is not None for name in NUMBERS}


def seen_in(metrics: Mapping[str, float]) -> dict[str, Seen]:
    """What the metrics of a LoggedModel say, by benchmark."""
    tasks = sorted({name.split("/")[1] for name in metrics if name.startswith(PREFIX) and name.count("/") == 2})
    return {task: Seen(task, of_numbers({name: metrics.get(f"{PREFIX}{task}/{name}", math.nan) for name in NUMBERS}))
            for task in tasks}


def without_contamination(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of other things."""
    return {name: value for name, value in metrics.items() if not name.startswith(PREFIX)}


def of_numbers(numbers: Mapping[str, float]) -> Contamination | None:
    """The score that these were of, without its parts; None where there is none among them."""
    score, low, high, p_value, probability, items, z = (numbers.get(name, math.nan) for name in NUMBERS)
    if not all(map(math.isfinite, (score, low, high, p_value, probability))):
        return None
    return Contamination("", score, low, high, z, p_value, probability, int(items) if math.isfinite(items) else 0, ())
