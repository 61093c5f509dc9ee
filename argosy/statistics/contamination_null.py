"""What clean models score, and from which score on a model is likely contaminated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from argosy.statistics.resampling import Floats
from argosy.storage import read_json

if TYPE_CHECKING:
    from argosy.statistics.contamination import Contamination, Evidence

DEFAULT = Path(__file__).with_name("contamination_default.json")
LEAST_MODELS = 4
CAP = 5.0  # of z: beyond, it is as sure as it gets, and one model that stands out most must not bend the curve
_STEPS = 50  # of Newton's method


@dataclass(frozen=True)
class Null:
    """Effects of a measure over clean models.

    Attributes:
        mean: their mean; not 0 where the published form is easier for everybody.
        error: standard deviation between models beyond what their items explain, with the error of `mean`.
    """

    mean: float
    error: float


@dataclass(frozen=True)
class Calibration:
    """Nulls by measure, and the logistic curve from z (which counts up to 5, either way) to a probability.

    about: what it was made of, for people.
    """

    nulls: Mapping[str, Null]
    intercept: float
    slope: float
    about: str = ""

    def probability(self, z: float) -> float:
        """Of being contaminated, with even odds before; NaN where no contaminated models were known."""
        power = self.intercept + self.slope * max(-CAP, min(CAP, z))
        return math.nan if math.isnan(power) else 1 / (1 + math.exp(-power))

    @property
    def most(self) -> float:
        """The largest probability that it gives."""
        return max(self.probability(CAP), self.probability(-CAP))

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Calibration:
        """What `as_json` gave."""
        nulls = {name: Null(**null) for name, null in found["nulls"].items()}
        return cls(nulls, found["intercept"], found["slope"], found.get("about", ""))


@cache
def default_calibration() -> Calibration:
    """Of the small models that `python -m benchmarks.contamination --write` trains (docs/benchmarks.md)."""
    return Calibration.from_json(read_json(DEFAULT))


def calibrate(
    clean: Sequence[Sequence[Evidence]],
    contaminated: Sequence[Sequence[Evidence]] = (),
    places: Sequence[Mapping[str, Any] | None] = (),
    about: str = "",
    clusters: Sequence[Mapping[str, Any] | None] = (),
    curve: tuple[float, float] | None = None,
) -> Calibration:
    """A calibration from models of which it is known.

    The mean and spread of clean models' effects make the null (random effects: the spread between models is what is
    left of their variance when the errors over items are taken off). The probability is a logistic regression on z with
    Platt's targets (1999), which hold it back where the two kinds do not overlap; without contaminated models there is
    none.

    Args:
        places, clusters: of each model (clean ones first), as for `score`.
        curve: intercept and slope that are taken where no contaminated models are known; z is in errors, so it can be
            that of other models.

    Raises:
        ValueError: there are fewer than 4 clean models, or models share no measure.
    """
    from argosy.statistics.contamination import score

    if len(clean) < LEAST_MODELS:
        raise ValueError(f"{len(clean)} clean models; allowed: {LEAST_MODELS} or more")
    where = list(places) or [None] * (len(clean) + len(contaminated))
    related = list(clusters) or [None] * len(where)
    every = list(zip([*clean, *contaminated], where, related, strict=True))
    raw = [score(evidence, at, of) for evidence, at, of in every]
    names = [part.name for part in raw[0].parts if all(part.name in {p.name for p in found.parts} for found in raw)]
    if not names:
        raise ValueError("the models have no measure in common")
    effects = np.array([[_part(found, name, "effect") for name in names] for found in raw])
    errors = np.array([[_part(found, name, "stderr") for name in names] for found in raw])
    nulls = {name: _null(effects[: len(clean), n], errors[: len(clean), n]) for n, name in enumerate(names)}
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
