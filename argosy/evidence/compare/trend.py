"""Drops of a probe or a channel of held-out text against the trend of its own run, with the change point and
the data seen since."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argosy.core.statistics.decisions import DECISION, Point, correct
from argosy.evidence.compare.checkpoints import HELDOUT, Checkpoint
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.words import value_text

EARLIEST = 5  # checkpoints before a change, which a trend and its noise are known from
LATEST = 6  # checkpoints since a change, beyond which it is a part of the trend
NIGHTS = 20  # in which one healthy metric of a run raises an alarm with a probability of ALPHA at most
ALPHA = 0.05
_SHARE = 0.34  # of ALPHA for each of the two newest places; the older ones have half of the one after each: 1 in all
_EXPONENTS = np.array([0.5, 1.0, 1.5, 2.0, 3.0])  # of a trend
_HALVES = 40  # numbers of tokens at which a trend may have half of its gain

@dataclass(frozen=True)
class Drop:
    """A metric that left its trend for the worse.

    Attributes:
        expected: level that the trend had reached before the change; `value`: mean of the checkpoints since.
        since: label of the last checkpoint before the change, after `tokens` tokens.
        seen: tokens seen since.
        p_value: one-sided, corrected for the search of the change and for NIGHTS; `p_adjusted`: for metrics too."""

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
        """The drop in words. `data`: what its stage reads, such as "anneal reads en 60 %"."""
        return (f"{self.metric} left its trend after {self.since} ({self.tokens:,} tokens): "
                f"{value_text(self.kind, self.value)} where {value_text(self.kind, self.expected)} was expected, "
                f"p {self.p_adjusted:.2g}; {self.seen:,} tokens seen since{f' ({data})' if data else ''}")


def drops(earlier: Sequence[Checkpoint], new: Checkpoint) -> list[Drop]:
    """Drops of a checkpoint's probes and channels against the trend of its run's `earlier` checkpoints, by Holm's
    correction over all that were tested; none with fewer than EARLIEST of them."""
    line = sorted([*earlier, new], key=lambda c: c.tokens)
    tested = {}
    for name, kind in _watched(new).items():
        points = [Point(c.tokens, _value(kind, c.metrics[name]), label=c.label) for c in line if name in c.metrics]
        items = new.counts.get(name, 0)
        if (drop := change_point(name, kind, points, 1 / items if kind.share and items else 0.0)) is not None:
            tested[name] = drop
    adjusted = correct({name: drop.p_value for name, drop in tested.items()}, DECISION)
    every = [replace(drop, p_adjusted=adjusted[name]) for name, drop in tested.items()]
    found = [drop for drop in every if drop.p_adjusted < ALPHA and drop.matters]
    return sorted(found, key=lambda drop: drop.p_adjusted)


def untested(earlier: Sequence[Checkpoint], new: Checkpoint) -> list[str]:
    """Sentences on the probes and channels that `drops` cannot test, by how many earlier checkpoints they have."""
    numbers = Counter(sum(name in c.metrics for c in earlier) for name in _watched(new))
    return [f"no trend of {count} probes and channels: {number} of {EARLIEST} earlier checkpoints"
            for number, count in sorted(numbers.items()) if number < EARLIEST]


def _watched(new: Checkpoint) -> dict[str, Kind]:
    kinds = {name: new.kind(name) for name in new.metrics if name.startswith(("probe/", HELDOUT))}
    return {name: kind for name, kind in kinds.items() if kind.sign and not kind.minor}


def _value(kind: Kind, value: float) -> float:
    return abs(value) if kind.centred else value


def change_point(name: str, kind: Kind, points: Sequence[Point], step: float = 0.0) -> Drop | None:
    """The likeliest place where a metric left its trend for the worse; None where there are too few points.

    A healthy metric gains ever less: the trend is a + b / (1 + (h / tokens)^c), the least-squares fit of the points
    before a change with b not for the worse (Hill's function; with a small h a power law, as losses have it). Of each
    place that leaves EARLIEST points before it and LATEST after it at most, the later mean is held against the level
    that the trend has reached, not against its continuation: slower gains are no drop. That is a t statistic, with four
    degrees of freedom for the trend (as Chow's test of prediction, 1960). The p-values are corrected for places and
    nights by Bonferroni, weighted for the newest places. It is 1 where the later mean, or the last point, is not worse
    than that level by what matters: a drop that is over is none.

    Checkpoints answer the same items, so their scatter about the trend is the noise, but not less than `step`, which
    one item changes."""
    tested = []
    for since in range(1, min(LATEST, len(points) - EARLIEST) + 1):
        weight = _SHARE / 2 ** max(0, since - 2)
        p_value, level, own = _test(points, len(points) - since, kind, step)
        tested.append((min(1.0, NIGHTS / weight * p_value), level, own, points[-1 - since]))
    if not tested:
        return None
    p_value, level, own, last = min(tested, key=lambda each: each[0])
    return Drop(name, kind, level, own, last.label, int(last.tokens), int(points[-1].tokens - last.tokens), p_value)


def _test(points: Sequence[Point], place: int, kind: Kind, step: float) -> tuple[float, float, float]:
    """The one-sided p-value of a change for the worse before `points[place]`, the level before and the mean since."""
    from scipy.stats import t

    y = np.array([point.value for point in points])
    before, own = y[:place], float(y[place:].mean())
    level, leverage, rest = _trend(np.array([max(1.0, p.tokens) for p in points[:place]]), kind.sign * before)
    level *= kind.sign
    if min(kind.sign * (level - own), kind.sign * (level - y[-1])) < (kind.matters or 0.0):
        return 1.0, level, own
    freedom = max(1, place - 4)
    spread = max(rest / freedom, step**2, 1e-18) * (1 / (len(y) - place) + leverage)
    return float(t.sf(kind.sign * (level - own) / math.sqrt(spread), freedom)), level, own


def _trend(tokens: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """The level that a rising trend of `y` has reached at the last point, its variance in units of the noise's, and the
    sum of squared residuals."""
    halves = np.geomspace(tokens[0] / 2, tokens[-1], _HALVES)
    shapes = 1 / (1 + (halves[:, None, None] / tokens) ** _EXPONENTS[:, None])
    shapes = shapes.reshape(-1, len(y)) - shapes.mean(axis=2).reshape(-1, 1)
    squares, centred = np.maximum((shapes**2).sum(axis=1), 1e-12), y - y.mean()
    slopes = np.maximum(0.0, shapes @ centred / squares)
    best = int(np.argmax(slopes**2 * squares))
    end = float(shapes[best, -1]) if slopes[best] else 0.0
    level = float(y.mean() + slopes[best] * end)
    rest = centred - slopes[best] * shapes[best]
    return level, 1 / len(y) + end**2 / float(squares[best]), float(rest @ rest)


def seen_data(stage: str, mixture: Mapping[str, float]) -> str:
    """The shares of a phase's channels in words, the largest first: "pretrain reads en 60 %, code 40 %"."""
    whole = sum(mixture.values()) or 1.0
    shares = sorted(((weight / whole, name) for name, weight in mixture.items() if weight > 0), reverse=True)
    said = ", ".join(f"{name} {100 * share:.0f} %" for share, name in shares)
    return f"{stage} reads {said}" if said else ""
