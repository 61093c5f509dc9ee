"""Advice to whoever trains the large model: which setting to take, and what the grid cannot tell."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from argosy.core.statistics.paired import Interval
from argosy.evidence.sweep import points
from argosy.evidence.sweep.fit import LEAST, Curve, Law, Noise, fit_law, fit_optimum
from argosy.evidence.sweep.points import RATE, Cell, Ranked, Runs, Setting, shown

WIDE = 4.0  # factor between the ends of an interval that chooses nothing: a step of 2 either way
FAR = 100.0  # factor of parameters beyond which a law is hardly more than a guess
Kind = Literal["best", "note", "worse", "better"]


@dataclass(frozen=True)
class Sentence:
    """A sentence and what it tells: `best` to take, `worse` what is wrong with the grid, `note` all else."""

    kind: Kind
    text: str


@dataclass
class Study:
    """Draws conclusions from the runs of a sweep."""

    runs: Runs
    ranked: dict[str, list[Ranked]]
    """Ranked cells by size, the smallest first."""
    curves: dict[str, Curve] = field(default_factory=dict)
    optima: dict[str, Interval] = field(default_factory=dict)
    law: Law | None = None
    take: dict[str, Any] = field(default_factory=dict)
    """Overrides for the large model; empty where the grid cannot tell."""
    sentences: list[Sentence] = field(default_factory=list)

    def say(self, kind: Kind, text: str) -> None:
        """Add a sentence; a field or a setting at its beginning is written as it is."""
        plain = not {".", "=", ":"} & set(text.split()[0])
        self.sentences.append(Sentence(kind, text[0].upper() + text[1:] if plain else text))


def study(runs: Runs, target: float = 0.0) -> Study:
    """Rank, fit, and say what follows for a model of `target` parameters, embeddings aside; 0: nobody asks for one."""
    sizes = runs.sizes
    found = Study(runs, {size: points.rank(cells) for size, cells in sizes.items()})
    for size, ranked in found.ranked.items():
        _say_best(found, size, ranked)
    if RATE in runs.axes:
        rest = points.best_rest(sizes)
        _advise(found, _fit_curves(found, sizes, rest), rest, target)
    else:
        found.say("note", f"{RATE} was not varied, and its best value changes with the size: sweep it too, with "
                          f"{LEAST} values or more, before a large model")
        _take_rest(found, sizes)
    for text in _notes(runs):
        found.say("note", text)
    return found


def _named(size: str) -> str:
    return f"at {size}, " if size else ""


def _say_best(found: Study, size: str, ranked: Sequence[Ranked]) -> None:
    best = ranked[0]
    if best.verdict == "diverged":
        found.say("worse", f"{_named(size)}every run diverged: lower the learning rates")
        return
    error = f" ± {best.cell.error:.2g}" if not math.isnan(best.cell.error) else ""
    seeds = len(best.cell.points)
    text = f"{_named(size)}{best.cell.label} has the lowest loss: {best.cell.mean:.4f}{error} bits a byte"
    text += f" ({seeds} seeds)" if seeds > 1 else ""
    by = {verdict: [each.cell.label for each in ranked if each.verdict == verdict] for verdict in ("noise", "one run")}
    if by["noise"]:
        text += f"; noise explains what it has over {'; '.join(by['noise'][:4])}"
        text += f" and {len(by['noise']) - 4} more" if len(by["noise"]) > 4 else ""
    elif by["one run"]:
        text += "; with one run of each setting nobody can tell that from noise: add --seeds 3"
    elif len(ranked) > 1:
        text += ", which noise does not explain"
    found.say("note", text)
    for edge in points.edges(ranked):
        found.say("worse", f"{_named(size)}{edge}")


def _fit_curves(found: Study, sizes: Mapping[str, Sequence[Cell]], rest: tuple[Setting, ...]) -> dict[str, Noise]:
    """Fit each size's parabola where that can be; return the noise of those sizes."""
    noises = {}
    for size, cells in sizes.items():
        curve = found.curves[size] = points.curve_of(cells, rest)
        if edge := points.rate_edge(curve, cells):
            found.say("worse", f"{_named(size)}{edge}")
        if curve.problem == "few":
            found.say("worse", f"{_named(size)}{len(curve.rates)} learning rates ended with a loss, and a parabola "
                               f"needs {LEAST}: too few points to tell the best one between them")
            continue
        noise = points.noise_for(cells, curve)
        if curve.problem:
            continue
        if not noise.known:
            found.say("worse", f"{_named(size)}three learning rates of one seed have no noise to be told from: add "
                               "--seeds 3, so that the best one has an interval")
            continue
        noises[size], found.optima[size] = noise, fit_optimum(curve, noise)
        each = found.optima[size]
        found.say("note", f"{_named(size)}the parabola through the losses is lowest at a learning rate of "
                          f"{_rate(each)}")
    return noises


def _advise(found: Study, noises: Mapping[str, Noise], rest: tuple[Setting, ...], target: float) -> None:
    if len(found.curves) == 1:
        _advise_one_size(found, rest)
        return
    if len(noises) < 2:
        found.say("worse", f"{len(noises)} of {len(found.curves)} sizes have a best learning rate inside the "
                           "grid, and a power law needs two: no learning rate for a large model follows")
        return
    law = found.law = fit_law([found.curves[size] for size in noises], [*noises.values()])
    low, high = law.exponent.low, law.exponent.high
    found.say("note", f"the best learning rate is a power law of the parameters (without embeddings) with the exponent "
                      f"{law.exponent.value:.2f} [{low:.2f}, {high:.2f}], from {len(noises)} sizes"
                      + ("; two sizes do not show whether it is one" if len(noises) == 2 else ""))
    if law.misfit < 0.05:
        found.say("worse", f"the sizes lie off one power law by more than noise explains (p = {law.misfit:.2g}): trust "
                           "it between them, and not beyond")
    if not target:
        found.say("note", "for the learning rate of a large model, name its size: --target-parameters 1e9 (those "
                          "of its blocks and norms, which argosy size lists)")
        return
    _extrapolate(found, law, rest, target)


def _extrapolate(found: Study, law: Law, rest: tuple[Setting, ...], target: float) -> None:
    at = law.at(target)
    largest = max(curve.parameters for curve in found.curves.values())
    far = target / largest
    where = f"a model of {target:.3g} parameters, {far:.3g} times the largest of the sweep"
    if _factor(at) > WIDE:
        found.say("worse", f"for {where}, the law gives a learning rate of {_rate(at)}: the interval is too wide "
                           f"to choose by (a factor of {_factor(at):.3g}, allowed {WIDE:g}); add sizes nearer to "
                           "it, or --seeds")
        return
    found.take = {RATE: _round(at.value), **dict(rest)}
    found.say("best", f"for {where}, take {_overrides(found.take)}: the law gives a learning rate of {_rate(at)}")
    if far > FAR:
        found.say("worse", f"that is beyond {FAR:g} times the largest size: run one more size on the way before you "
                           "trust it")


def _advise_one_size(found: Study, rest: tuple[Setting, ...]) -> None:
    at = next(iter(found.optima.values()), None)
    if at is None:
        found.say("worse", "no learning rate for a large model follows, since the best one at this size is not "
                           "known: it is at the grid's edge, or has too few points around it")
        return
    if _factor(at) > WIDE:
        found.say("worse", f"the interval of the best learning rate, {_rate(at)}, is too wide to choose by (a "
                           f"factor of {_factor(at):.3g}, allowed {WIDE:g}): add --seeds, or learning rates")
        return
    found.take = {RATE: _round(at.value), **dict(rest)}
    found.say("best", f"at this size take {_overrides(found.take)}; for a larger model sweep three sizes")


def _take_rest(found: Study, sizes: Mapping[str, Sequence[Cell]]) -> None:
    """Take the settings that no size says otherwise about."""
    bests = [ranked[0].cell.settings for ranked in found.ranked.values() if ranked[0].verdict == "best"]
    if bests and len(bests) == len(sizes) and all(each == bests[0] for each in bests) and bests[0]:
        found.take = dict(bests[0])
        found.say("best", f"take {_overrides(found.take)}" + (": it is best at every size" if len(bests) > 1 else ""))


def _notes(runs: Runs) -> Iterator[str]:
    diverged = [point.name for point in runs.points if not point.losses]
    if diverged:
        yield f"{len(diverged)} of {len(runs.points)} points diverged: {', '.join(diverged[:5])}"
    ratios = sorted({float(point.config["tokens"]) / point.every_parameter for point in runs.points if
                     point.every_parameter})
    if len(ratios) > 1 and ratios[-1] > 2 * ratios[0]:
        yield (f"the sizes learnt from {ratios[0]:.3g} to {ratios[-1]:.3g} tokens a parameter; the best learning rate "
               "depends on that too, so a large model wants a ratio within them")


def _factor(of: Interval) -> float:
    """Return how many times the upper end is the lower one."""
    return of.high / of.low if of.low > 0 else math.inf


def _rate(of: Interval) -> str:
    return f"{of.value:.3g} [{of.low:.3g}, {of.high:.3g}]"


def _round(value: float) -> float:
    return float(f"{value:.2g}")


def _overrides(take: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={shown(value)}" for name, value in take.items())
