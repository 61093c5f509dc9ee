"""Which metrics are worth watching at this scale: those that say something here and now."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.statistics.intervals import normal_interval, share_interval
from argosy.statistics.signal_noise import LAST, Curve, Point, SignalToNoise, signal_to_noise
from argosy.statistics.trend import Trend, kendall

RATIO = 2.0  # signal over noise from which a metric is worth watching
FEW = 10  # items below which a metric is not worth watching
VERDICTS = ("watch", "does not tell apart", "noise", "at chance", "too few checkpoints", "few items", "no direction")
Z_95 = 1.96


@dataclass(frozen=True)
class Watched:
    """One metric.

    Attributes:
        last: of the last checkpoint of the run with the most checkpoints (of as many, of the one that ends at the
            most tokens); where there is a chance level to be above, of the run that ends highest. With its interval
            (None: error unknown).
        of: what that checkpoint is called.
        chance: what guessing scores; None where there is no such thing.
        trend: of the run with the most checkpoints, as `last`; its p-value is of a metric that does not move.
        apart: whether two models, or the first and last checkpoint of a run, differ beyond their intervals.
        verdict: one of VERDICTS; `why` says more.
    """

    metric: str
    checkpoints: int
    last: float
    of: str
    interval: tuple[float, float] | None
    chance: float | None
    found: SignalToNoise
    trend: Trend
    apart: bool
    verdict: str
    why: str


def worth_watching(
    curves: Mapping[str, Sequence[Curve]],
    chance: Mapping[str, float] | None = None,
    counts: Mapping[str, int] | None = None,
    *,
    ratio: float = RATIO,
    last: int = LAST,
    items: Mapping[str, int] | None = None,
    undirected: Collection[str] = (),
) -> list[Watched]:
    """A verdict on each metric; those to watch first, by signal over noise.

    A metric is worth watching where its last value is above chance beyond its interval, its signal is at least `ratio`
    times its noise, and it tells two models or two checkpoints apart; if one way is better, and of FEW items or more.

    Args:
        curves: by metric, one for each training run.
        chance: accuracy of guessing, where the metric is an accuracy.
        counts: number of answers of the metric, where it is a share: Wilson's interval then, else 1.96 errors.
        items: number of items of the metric, of whatever kind it is; 0 or missing: unknown, and not few.
        undirected: metrics of which neither higher nor lower is better.
    """
    found = [_watched(name, some, (chance or {}).get(name), (counts or {}).get(name), ratio, last)
             for name, some in curves.items() if some]  # fmt: skip
    found = [_unfit(each, (items or {}).get(each.metric, 0), each.metric in undirected) for each in found]
    strength = {each.metric: -each.found.ratio if not math.isnan(each.found.ratio) else 0.0 for each in found}
    return sorted(found, key=lambda each: (VERDICTS.index(each.verdict), strength[each.metric], each.metric))


def _unfit(each: Watched, items: int, undirected: bool) -> Watched:
    """However clear its signal is: what moves neither up nor down for the better, or is of a few items, says nothing
    of how good a model is."""
    if undirected:
        return replace(each, verdict="no direction", why="neither higher nor lower is better")
    if 0 < items < FEW:
        return replace(each, verdict="few items", why=f"it is of {items} items, fewer than {FEW}")
    return each


def _watched(
    name: str, curves: Sequence[Curve], chance: float | None, count: int | None, ratio: float, last: int
) -> Watched:
    found = signal_to_noise(curves, last)
    longest = max(curves, key=lambda c: (len(c.points), c.points[-1].tokens))
    trend = kendall([p.tokens for p in longest.points], [p.value for p in longest.points])
    best = longest.points[-1] if chance is None else max((c.points[-1] for c in curves), key=lambda p: p.value)
    interval = _interval(best, count)
    apart = _apart(curves, found.noise)
    verdict, why = _verdict(found, interval, chance, apart, ratio)
    return Watched(name, sum(len(c.points) for c in curves), best.value, best.label, interval, chance, found, trend,
                   apart, verdict, why)  # fmt: skip


def _interval(point: Point, count: int | None) -> tuple[float, float] | None:
    if count and 0 <= point.value <= 1:
        return share_interval(point.value, 0.0 if math.isnan(point.stderr) else point.stderr, count)
    return None if math.isnan(point.stderr) else normal_interval(point.value, point.stderr)


def _apart(curves: Sequence[Curve], noise: float) -> bool:
    """By independent errors (by the noise, where they are unknown), so on the same items all the more."""
    ends = [c.points[-1] for c in curves]
    pairs = [(a, b) for i, a in enumerate(ends) for b in ends[:i]]
    pairs += [(c.points[0], c.points[-1]) for c in curves if len(c.points) > 1]
    errors = [[noise if math.isnan(p.stderr) else p.stderr for p in pair] for pair in pairs]
    return any(abs(a.value - b.value) > Z_95 * math.hypot(*error) for (a, b), error in zip(pairs, errors, strict=True))


def _verdict(
    found: SignalToNoise, interval: tuple[float, float] | None, chance: float | None, apart: bool, ratio: float
) -> tuple[str, str]:
    if chance is not None and interval is not None and interval[0] <= chance:
        return "at chance", f"[{interval[0]:.3f}, {interval[1]:.3f}] is not above chance, {chance:.3f}"
    if math.isnan(found.ratio):
        return "too few checkpoints", "signal needs two checkpoints, and noise three or the metric's standard error"
    said = f"signal {found.signal:.3g} is {found.ratio:.1f} times noise {found.noise:.3g}"
    if found.ratio < ratio:
        return "noise", f"{said}, less than {ratio:g} times"
    if not apart:
        return "does not tell apart", f"{said}, but no two checkpoints differ beyond the error of these items"
    return "watch", said
