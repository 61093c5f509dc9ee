"""Metrics worth watching at this scale: signal over noise of a store's evaluations, or of the lines that are
compared."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.compare.checkpoints import Checkpoint, Checkpoints
from argosy.compare.entries import Compared, Entry, points
from argosy.compare.metrics import chance_of, kind_of
from argosy.evaluation.contamination import has_seen
from argosy.statistics.intervals import normal_interval, share_interval
from argosy.statistics.trend import LAST, Curve, Point, SignalToNoise, Trend, kendall, signal_to_noise
from argosy.store.step_files import read_done

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
    """Refuse a metric however clear its signal is: one without a direction, or of a few items, says nothing of how
    good a model is."""
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
    """Compare by independent errors (by the noise, where they are unknown), so on the same items all the more."""
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


def watchlist(checkpoints: Checkpoints, training: Iterable[Path] = (), *, ratio: float = RATIO,
              metrics: Sequence[str] = ()) -> list[Watched]:
    """A verdict on each metric of the evaluated checkpoints, those to watch first (argosy.compare.watch).

    A curve is a metric over the checkpoints of one training step. Steps that differ in their seed alone are seeds of
    one model. What guessing scores is no metric, and a checkpoint that has likely seen a benchmark says nothing of it.
    A metric of a few items, or of which neither way is better (argosy.compare.metrics), is not worth watching.

    Args:
        training: directories of the training steps, which say what differs; without, each step is a model.
        ratio: signal over noise from which a metric is worth watching.
        metrics: the names to look at; default all.
    """
    models = dict(filter(None, map(_model, training)))
    by_run: dict[str, list[Checkpoint]] = {}
    for c in checkpoints.evaluated:
        by_run.setdefault(c.digest, []).append(c)
    names = sorted({name for c in checkpoints.evaluated for name in c.metrics
                    if not name.endswith("/chance") and (not metrics or name in metrics)})  # fmt: skip
    runs = [(models.get(digest, digest), run) for digest, run in by_run.items()]
    curves = {name: [curve for model, run in runs if (curve := _curve(name, model, run))] for name in names}
    items = {name: max(c.counts.get(name, 0) for c in checkpoints.evaluated) for name in names}
    declared = {name: kind for c in checkpoints.evaluated for name, kind in c.kinds.items()}
    kinds = {name: kind_of(name, declared) for name in names}
    shares = {name: n for name, n in items.items() if kinds[name].share}
    return worth_watching(curves, _chances(checkpoints.evaluated), shares, ratio=ratio, items=items,
                          undirected=[name for name in names if not kinds[name].better])


def _curve(name: str, model: str, run: Sequence[Checkpoint]) -> Curve | None:
    having = sorted((c for c in run if math.isfinite(c.metrics.get(name, math.nan)) and not has_seen(c.seen, name)),
                    key=lambda c: (c.tokens, c.step))  # fmt: skip
    points = tuple(Point(float(c.tokens), c.metrics[name], c.stderr.get(name, math.nan), c.label) for c in having)
    return Curve(model, points) if points else None


def _chances(checkpoints: Sequence[Checkpoint]) -> dict[str, float]:
    """Accuracy of guessing, by metric: of benchmarks whose answers are known."""
    found = {}
    for c in checkpoints:
        for (task, variant), answers in c.answers.items():
            for name in (task, *(f"{task}_{lang}" for lang in answers.langs)):
                found[f"bench/{name}/{variant}/acc"] = answers.chance
    return found


def _model(directory: Path) -> tuple[str, str] | None:
    """The step's digest, and what is the same of all of its seeds."""
    done = read_done(directory)
    if done is None:
        return None
    made: Mapping[str, Any] = done["made_from"]
    config = {name: value for name, value in made["config"].items() if name != "seed"}
    same = json.dumps([made["node"], made["step"], config, made["upstream"]], sort_keys=True)
    return str(made["digest"]), f"{made['node']}-{hashlib.sha256(same.encode()).hexdigest()[:12]}"


def watched(found: Compared, by: str) -> list[Watched]:
    """Verdicts on the metrics that are shown and have a line of at least three checkpoints; those to watch first."""
    lines = {n: [c for e in found.entries if (c := _curve_of_entry(e, n, by)) is not None] for n in found.metrics}
    curves = {name: some for name, some in lines.items() if any(len(c.points) > 2 for c in some)}
    chance = {name: value for name in curves if (value := _chance(found, name)) is not None}
    items = {name: max(e.chosen.counts.get(name, 0) for e in found.entries) for name in curves}
    return worth_watching(curves, chance, items=items, undirected=[n for n in curves if not found.kinds[n].better])


def _curve_of_entry(entry: Entry, name: str, by: str) -> Curve | None:
    errors = {float(c.step if by == "step" else c.tokens): c.stderr.get(name, math.nan) for c in entry.line}
    found = tuple(Point(p[0], p[1], errors.get(p[0], math.nan)) for p in points(entry, name, by))
    return Curve(entry.label, found) if found else None


def _chance(found: Compared, name: str) -> float | None:
    """The accuracy of guessing among the options; None for what is no accuracy of a choice."""
    parts = name.split("/")
    if parts[0] != "bench" or len(parts) != 4 or parts[3] != "acc":
        return None
    for entry in found.entries:
        known = entry.chosen.metrics.get(chance_of(name, found.kinds[name]))
        if known is not None:
            return known
        for form in entry.forms.get(name, [parts[2]]):
            for task in (parts[1], parts[1].rpartition("_")[0]):
                answers = entry.chosen.answers.get((task, form))
                if answers is not None and answers.chance:
                    return answers.chance
    return None
