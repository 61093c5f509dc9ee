"""Metrics worth watching at this scale: signal over noise of the lines that are compared."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from argosy.core.statistics.decisions import Curve, Point, SignalToNoise, signal_to_noise
from argosy.core.statistics.intervals import quantile
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import Compared, place_in, value_at
from argosy.evidence.compare.metrics import Kind, chances
from argosy.evidence.results.contamination import has_seen

RATIO = 2.0  # signal over noise from which a metric is worth watching
FEW = 10  # items below which a metric is not worth watching
VERDICTS = ("watch", "does not tell apart", "noise", "at chance", "too few checkpoints", "few items", "no direction")


@dataclass(frozen=True)
class Line(Curve):
    """A metric over one training run, and what is known of it at the end."""

    interval: tuple[float, float] | None = None
    """95 % interval; None: its error is not known"""
    chance: float | None = None
    """the score of guessing; None where nothing is guessed"""
    items: int = 0
    """number of items; those of one fact count as one; 0: not known, and not few"""


@dataclass(frozen=True)
class Watched:
    """One metric."""

    metric: str
    checkpoints: int
    last: float
    """value of the last checkpoint of the run with the most checkpoints (on a tie, of the one that ends at the most
    tokens); where there is a chance level to be above, of the run that ends best"""
    of: str
    """the name of that checkpoint"""
    interval: tuple[float, float] | None
    """interval of `last`; None: error unknown"""
    chance: float | None
    """the score of guessing; None where nothing is guessed"""
    found: SignalToNoise
    apart: bool
    """whether two models, or the first and last checkpoint of a run, differ beyond their intervals"""
    verdict: str
    """one of VERDICTS"""
    why: str


def worth_watching(lines: Mapping[str, Sequence[Line]], kinds: Mapping[str, Kind]) -> list[Watched]:
    """A verdict on each metric; those to watch first, by signal over noise.

    A metric is worth watching where its last value is better than guessing beyond its interval, its signal is at
    least RATIO times its noise, and it tells two models or two checkpoints apart; if one way is better, and of FEW
    items or more. `lines`: by metric, one for each training run."""
    found = [_watched(name, some, kinds[name].sign) for name, some in lines.items() if some]
    strength = {each.metric: -each.found.ratio if not math.isnan(each.found.ratio) else 0.0 for each in found}
    return sorted(found, key=lambda each: (VERDICTS.index(each.verdict), strength[each.metric], each.metric))


def _watched(name: str, lines: Sequence[Line], better: int) -> Watched:
    found = signal_to_noise(lines)
    longest = max(lines, key=lambda line: (len(line.points), line.points[-1].tokens))
    guessed = [line for line in lines if line.chance is not None]
    best = max(guessed, key=lambda line: (better or 1) * line.points[-1].value) if guessed else longest
    apart = _apart(lines, found.noise)
    verdict, why = _unfit(best, better) or _verdict(found, best, better, apart)
    end = best.points[-1]
    return Watched(name, sum(len(line.points) for line in lines), end.value, end.label, best.interval, best.chance,
                   found, apart, verdict, why)  # fmt: skip


def _apart(lines: Sequence[Line], noise: float) -> bool:
    """Compare by independent errors (by the noise, where they are unknown), so on the same items all the more."""
    ends = [line.points[-1] for line in lines]
    pairs = [(a, b) for i, a in enumerate(ends) for b in ends[:i]]
    pairs += [(line.points[0], line.points[-1]) for line in lines if len(line.points) > 1]
    errors = [[noise if math.isnan(p.stderr) else p.stderr for p in pair] for pair in pairs]
    z = quantile(0.95)
    return any(abs(a.value - b.value) > z * math.hypot(*error) for (a, b), error in zip(pairs, errors, strict=True))


def _unfit(best: Line, better: int) -> tuple[str, str] | None:
    """Refuse a metric however clear its signal is: one without a direction, or of a few items, says nothing of how
    good a model is."""
    if not better:
        return "no direction", "neither higher nor lower is better"
    return ("few items", f"it is of {best.items} items, fewer than {FEW}") if 0 < best.items < FEW else None


def _verdict(found: SignalToNoise, best: Line, better: int, apart: bool) -> tuple[str, str]:
    low, high = best.interval or (best.points[-1].value,) * 2
    if best.chance is not None and better * (low if better > 0 else high) <= better * best.chance:
        value = f"[{low:.3f}, {high:.3f}]" if best.interval else f"{low:.3f}"
        return "at chance", f"{value} is not {'above' if better > 0 else 'below'} chance, {best.chance:.3f}"
    if math.isnan(found.ratio):
        return "too few checkpoints", "signal needs two checkpoints, and noise three or the metric's standard error"
    said = f"signal {found.signal:.3g} is {found.ratio:.1f} times noise {found.noise:.3g}"
    if found.ratio < RATIO:
        return "noise", f"{said}, less than {RATIO:g} times"
    if not apart:
        return "does not tell apart", f"{said}, but no two checkpoints differ beyond the error of these items"
    return "watch", said


def watched(found: Compared, by: str) -> list[Watched]:
    """Verdicts on the metrics that are shown and have a line of at least three checkpoints; those to watch first."""
    lines = {name: [line for e in found.entries
                    if (line := _line(name, e.line, by, partial(value_at, e))) is not None]
             for name in found.metrics if name not in chances(found.kinds)}  # fmt: skip
    return worth_watching({name: some for name, some in lines.items() if any(len(line.points) > 2 for line in some)},
                          found.kinds)


def _line(name: str, run: Sequence[Checkpoint], by: str,
          value: Callable[[Checkpoint, str], float | None]) -> Line | None:
    having = [(c, v) for c in sorted(run, key=lambda c: (place_in(c, by), c.step))
              if (v := value(c, name)) is not None and math.isfinite(v) and not has_seen(c.seen, name)]
    if not having:
        return None
    end = having[-1][0]
    side = end.side(name)
    points = tuple(Point(place_in(c, by), v, c.stderr.get(name, math.nan), c.label) for c, v in having)
    return Line(points, end.interval(name), end.chance(name), side.units if side is not None else 0)
