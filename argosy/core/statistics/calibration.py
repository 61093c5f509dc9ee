"""The calibration of the contamination score: effects of clean models, and the curve from a score to a probability."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from argosy.core.statistics.contamination import CAP, Calibration, Contamination, Evidence, Null, score
from argosy.core.statistics.intervals import Floats

LEAST_MODELS = 4


_STEPS = 50  # of Newton's method


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
    return Calibration(nulls, *_platt(np.array(z), len(clean)), about)


def _part(found: Contamination, name: str, field: str) -> float:
    return float(next(getattr(part, field) for part in found.parts if part.name == name))


def _null(effects: Floats, errors: Floats) -> Null:
    between = max(0.0, float(np.var(effects, ddof=1) - np.mean(errors**2)))
    of_mean = float(np.var(effects, ddof=1)) / len(effects)
    return Null(float(effects.mean()), math.sqrt(between + of_mean))


def _platt(z: Floats, clean: int) -> tuple[float, float]:
    """Intercept and slope of P(contaminated | z), both kinds counting the same."""
    others = len(z) - clean
    targets = np.where(np.arange(len(z)) < clean, 1 / (clean + 2), (others + 1) / (others + 2))
    weights = np.where(np.arange(len(z)) < clean, 0.5 / clean, 0.5 / others)
    design = np.stack([np.ones_like(z), np.clip(z, -CAP, CAP)], axis=1)
    found = np.zeros(2)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, design.T @ (weights * (targets - chance)))
        found = found + np.clip(step, -2.0, 2.0)
    return float(found[0]), float(found[1])


def _nulls(raw: Sequence[Contamination], clean: int) -> dict[str, Null]:
    """The nulls of the measures that all models share, by the first `clean` models."""
    names = [part.name for part in raw[0].parts if all(part.name in {p.name for p in found.parts} for found in raw)]
    if not names:
        raise ValueError("the models have no measure in common")
    effects = np.array([[_part(found, name, "effect") for name in names] for found in raw[:clean]])
    errors = np.array([[_part(found, name, "stderr") for name in names] for found in raw[:clean]])
    return {name: _null(effects[:, n], errors[:, n]) for n, name in enumerate(names)}
