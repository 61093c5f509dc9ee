"""Calibrations: from a score to a probability (Platt), and of the contamination score by what clean models have."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from argosy.core.statistics.contamination import CAP, Calibration, Contamination, Evidence, Null, score
from argosy.core.statistics.intervals import Floats

LEAST_MODELS = 4


_STEPS = 100  # of Newton's method


def calibrate(
    clean: Sequence[Sequence[Evidence]], contaminated: Sequence[Sequence[Evidence]] = (),
    places: Sequence[Mapping[str, Any] | None] = (), about: str = "", clusters: Sequence[Mapping[str, Any] | None] = (),
    curve: tuple[float, float] | None = None,
) -> Calibration:
    """A calibration from models of which it is known.

    The mean and spread of clean models' effects make the null (random effects: the spread between models is what is
    left of their variance when the errors over items are taken off). The probability is a logistic regression on z
    with Platt's targets (1999), which hold it back where the two kinds do not overlap; without contaminated models
    there is none. `places`, `clusters`: of each model (clean ones first), as for `score`. `curve`: intercept and
    slope that are taken where no contaminated models are known; z is in errors, so it can be that of other models.
    Raises ValueError: there are fewer than 4 clean models, or models share no measure."""
    if len(clean) < LEAST_MODELS:
        raise ValueError(f"{len(clean)} clean models; allowed: {LEAST_MODELS} or more")
    where = list(places) or [None] * (len(clean) + len(contaminated))
    related = list(clusters) or [None] * len(where)
    every = list(zip([*clean, *contaminated], where, related, strict=True))
    nulls = _nulls([score(evidence, at, of) for evidence, at, of in every], len(clean))
    nothing = Calibration(nulls, *(curve or (math.nan, math.nan)), about)
    if not contaminated:
        return nothing
    z = [score(evidence, at, of, nothing).z for evidence, at, of in every]
    labels = np.repeat([0.0, 1.0], [len(clean), len(contaminated)])
    weights = np.where(labels > 0, 0.5 / len(contaminated), 0.5 / len(clean))  # both kinds count the same
    slope, offset = platt(np.clip(z, -CAP, CAP), labels, weights)
    return Calibration(nulls, offset, slope, about)


def _part(found: Contamination, name: str, field: str) -> float:
    return float(next(getattr(part, field) for part in found.parts if part.name == name))


def _null(effects: Floats, errors: Floats) -> Null:
    between = max(0.0, float(np.var(effects, ddof=1) - np.mean(errors**2)))
    of_mean = float(np.var(effects, ddof=1)) / len(effects)
    return Null(float(effects.mean()), math.sqrt(between + of_mean))


def platt(values: Floats, labels: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Return slope and offset of the logit in `values` that are likeliest for `labels` of 0 and 1, all (scores,),
    against targets that are never quite certain (Platt 1999, by Newton's method as Lin, Lin and Weng 2007)."""
    ahead, behind = float((labels > 0).sum()), float((labels <= 0).sum())
    targets = np.where(labels > 0, (ahead + 1) / (ahead + 2), 1 / (behind + 2))
    counts = np.ones_like(values) if weights is None else weights
    slope, offset = 0.0, float(np.log((ahead + 1) / (behind + 1)))

    def loss(a: float, b: float) -> float:
        logits = a * values + b
        return float((counts * (np.logaddexp(0, logits) - targets * logits)).sum())

    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(slope * values + offset, -500, 500)))
        rest, spread = counts * (chance - targets), counts * chance * (1 - chance)
        first, second = float((rest * values).sum()), float(rest.sum())
        aa, ab, bb = (float((spread * each).sum()) + 1e-12 * both
                      for each, both in ((values * values, 1), (values, 0), (np.ones_like(values), 1)))
        scale = aa * bb - ab * ab
        steps = (-(bb * first - ab * second) / scale, -(aa * second - ab * first) / scale)
        if max(map(abs, steps)) < 1e-9:
            break
        share, now = 1.0, loss(slope, offset)
        while share > 1e-10 and loss(slope + share * steps[0], offset + share * steps[1]) > now:
            share /= 2
        slope, offset = slope + share * steps[0], offset + share * steps[1]
    return slope, offset


def _nulls(raw: Sequence[Contamination], clean: int) -> dict[str, Null]:
    """The nulls of the measures that all models share, by the first `clean` models."""
    names = [part.name for part in raw[0].parts if all(part.name in {p.name for p in found.parts} for found in raw)]
    if not names:
        raise ValueError("the models have no measure in common")
    effects = np.array([[_part(found, name, "effect") for name in names] for found in raw[:clean]])
    errors = np.array([[_part(found, name, "stderr") for name in names] for found in raw[:clean]])
    return {name: _null(effects[:, n], errors[:, n]) for n, name in enumerate(names)}
