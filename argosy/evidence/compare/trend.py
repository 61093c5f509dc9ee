"""Drops of a probe or a channel of held-out text against the trend of its own training run, with the change point and
the data seen since."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argosy.core.statistics.decisions import DECISION, Point, correct
from argosy.evidence.compare.checkpoints import HELDOUT, Checkpoint
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.words import value_text

EARLIEST = 5  # checkpoints before a change, which a trend and its noise are known from
ALPHA = 0.05


@dataclass(frozen=True)
class Drop:
    """A metric that left its trend for the worse.

    Attributes:
        expected: mean of the trend at the checkpoints since the change; `value`: their own mean.
        since: label of the last checkpoint before the change, after `tokens` tokens.
        seen: tokens seen since.
        p_value: one-sided, corrected for the search of the change point; `p_adjusted`: also for the other metrics."""

    metric: str
    kind: Kind
    expected: float
    value: float
    since: str
    tokens: int
    seen: int
    p_value: float
    p_adjusted: float = 1.0

    @property
    def matters(self) -> bool:
        """Whether it is as large as a difference of the metric that matters."""
        return abs(self.value - self.expected) >= (self.kind.matters or 0.0)

    def text(self, data: str = "") -> str:
        """The drop in words. `data`: what was seen since, such as "en 60 %"."""
        seen = f"{self.seen:,} tokens{f' ({data})' if data else ''}"
        return (f"{self.metric} left its trend after {self.since} ({self.tokens:,} tokens): "
                f"{value_text(self.kind, self.value)} where {value_text(self.kind, self.expected)} was expected, "
                f"p {self.p_adjusted:.2g}; {seen} seen since")


def drops(earlier: Sequence[Checkpoint], new: Checkpoint) -> list[Drop]:
    """Drops of a checkpoint's probes and channels against the trend of its run's `earlier` checkpoints, by Holm's
    correction over all that were tested; none with fewer than EARLIEST of them."""
    line = sorted([*earlier, new], key=lambda c: c.tokens)
    tested = {}
    for name in new.metrics:
        kind = new.kind(name)
        if name.startswith(("probe/", HELDOUT)) and kind.sign and not kind.minor:
            points = [Point(c.tokens, _value(kind, c.metrics[name]), label=c.label) for c in line if name in c.metrics]
            items = new.counts.get(name, 0)
            if (drop := change_point(name, kind, points, 1 / items if kind.share and items else 0.0)) is not None:
                tested[name] = drop
    adjusted = correct({name: drop.p_value for name, drop in tested.items()}, DECISION)
    every = [replace(drop, p_adjusted=adjusted[name]) for name, drop in tested.items()]
    found = [drop for drop in every if drop.p_adjusted < ALPHA and drop.matters]
    return sorted(found, key=lambda drop: drop.p_adjusted)


def _value(kind: Kind, value: float) -> float:
    return abs(value) if kind.centred else value


def change_point(name: str, kind: Kind, points: Sequence[Point], step: float = 0.0) -> Drop | None:
    """The likeliest place where a metric left its trend for the worse; None where there are too few points.

    The trend is the least-squares parabola over the logarithm of tokens of the points before a change: of a line,
    each healthy loss that flattens out, as scaling laws have it, would be a drop. Of each place that leaves EARLIEST
    points before it, the mean of the later residuals is a t statistic with their degrees of freedom (Chow 1960, the
    test of prediction). The smallest p-value counts as many times as there are places (Bonferroni). Where the later
    mean is not worse than the last point before, or the last point than the trend, by what matters, it is 1: slower
    gains, and a drop that is over, are none.

    Checkpoints answer the same items, so their scatter about the trend is the noise, but not less than `step`, which
    one item changes."""
    places = range(EARLIEST, len(points))
    tested = [(_p_value(points, place, kind, step), place) for place in places]
    if not tested:
        return None
    (p_value, (expected, value)), place = min(tested, key=lambda each: each[0][0])
    last = points[place - 1]
    return Drop(name, kind, expected, value, last.label, int(last.tokens), int(points[-1].tokens - last.tokens),
                min(1.0, p_value * len(places)))


def _p_value(points: Sequence[Point], place: int, kind: Kind, step: float) -> tuple[float, tuple[float, float]]:
    """The one-sided p-value of a change for the worse before `points[place]`, and the means there: expected and own."""
    from scipy.stats import t

    x, y = np.log([max(1.0, p.tokens) for p in points]), np.array([p.value for p in points])
    x = x - x.mean()
    design = np.column_stack([np.ones(len(x)), x, x**2])
    before, after = design[:place], design[place:]
    curve = np.linalg.lstsq(before, y[:place], rcond=None)[0]
    freedom = place - int(np.linalg.matrix_rank(before))
    residuals = float(np.sum((y[:place] - before @ curve) ** 2)) / freedom
    noise = max(residuals, step**2, 1e-18)
    centre = after.mean(axis=0)
    spread = noise * (1 / len(after) + float(centre @ np.linalg.pinv(before.T @ before) @ centre))
    expected, own = float(centre @ curve), float(y[place:].mean())
    fallen, off = kind.sign * (y[place - 1] - own), kind.sign * (float(design[-1] @ curve) - y[-1])
    if min(fallen, off) < (kind.matters or 0.0):
        return 1.0, (expected, own)
    return float(t.sf(-kind.sign * (own - expected) / math.sqrt(spread), freedom)), (expected, own)


def seen_data(mixture: Mapping[str, float]) -> str:
    """The shares of a phase's channels in words, the largest first: "en 60 %, code 40 %"."""
    whole = sum(mixture.values()) or 1.0
    shares = sorted(((weight / whole, name) for name, weight in mixture.items() if weight > 0), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f} %" for share, name in shares)
