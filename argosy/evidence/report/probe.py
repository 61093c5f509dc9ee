"""A page of probabilities that were asked from the shell, over checkpoints; and reliability diagrams."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.report.chart import Chart, Series, draw
from argosy.evidence.report.page import render

_BIN = re.compile(r"probe/([^/]+/[^/]+)/(\d{3}_\d{3})/confidence")


@dataclass(frozen=True)
class Probed:
    """The probabilities of one checkpoint."""

    name: str
    tokens: int | None
    """tokens of training so far; None: not known"""
    values: Mapping[str, Mapping[str, Any]]
    """measures of each probability, by its text"""


def page(found: Sequence[Probed]) -> str:
    """Return the page, one file that needs no network."""
    return render("probe.html.j2", found=found, plots=[draw(chart) for chart in charts(found)])


def charts(found: Sequence[Probed]) -> Iterator[Chart]:
    """Draw mass and nats: over tokens where these are known and rise, else over the order of the checkpoints."""
    tokens = [each.tokens for each in found if each.tokens is not None]
    rising = len(tokens) == len(found) and all(a < b for a, b in itertools.pairwise(tokens))
    xs = [float(at) for at in (tokens if rising else range(1, len(found) + 1))]
    names = {x: each.name for x, each in zip(xs, found, strict=True)}
    for measure, title, unit in (("mass", "Probability, %", "%"), ("nats", "Surprise in nats, lower is likelier", "")):
        series = [Series(text, [(x, each.values[text][measure]) for x, each in zip(xs, found, strict=True)])
                  for text in found[0].values]
        yield Chart(title, "of the next bytes", "tokens" if rising else "checkpoints", series, unit=unit, x_text=names,
                    own_ticks=not rising)


def reliability(checkpoints: Sequence[Checkpoint]) -> Iterator[Chart]:
    """Draw, for each probe of calibration, the share of right answers over the mean confidence of each bin; a perfectly
    calibrated model is on the diagonal (DeGroot & Fienberg 1983)."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for checkpoint in checkpoints:
        for name in sorted(checkpoint.metrics):
            if (bin_ := _BIN.fullmatch(name)) and (acc := name.replace("/confidence", "/acc")) in checkpoint.metrics:
                points = found.setdefault(bin_[1], {}).setdefault(checkpoint.label, [])
                points.append((100 * checkpoint.metrics[name], checkpoint.metrics[acc]))
    diagonal = Series("calibrated", [(0.0, 0.0), (100.0, 1.0)])
    for probe, lines in found.items():
        series = [Series(label, points) for label, points in lines.items()]
        yield Chart(f"Reliability: {probe}", "share right over confidence, by bin", "% confidence", [diagonal, *series],
                    unit="%")
