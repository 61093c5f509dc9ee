"""The win rate that would be if both models answered at equal length (Dubois et al. 2024, AlpacaEval 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from argosy.statistics import Interval

RIDGE = 1.0  # prior variance of the length's weight: keeps it finite where length alone tells every verdict
DRAWS = 1000
LEAST_PROMPTS = 8
LEAST_SHARE = 0.1  # of prompts in which each model's answer is the longer one


def length_controlled(
    preferences: Sequence[float], first: Sequence[int], second: Sequence[int], seed: int = 0
) -> Interval | None:
    """The win rate of the first at no difference in length, with its 95 % bootstrap interval over prompts.

    A logistic regression of the preference on tanh(difference in characters / its standard deviation); the win rate is
    the model's at difference 0. Of AlpacaEval's terms that is the model and the length; difficulty by instruction
    needs many models. None where there are fewer than 8 prompts, or where one model's answers are the longer ones in
    more than nine of ten: nothing tells then what it would win at equal length.

    Args:
        preferences: 0 to 1 for each prompt, 0.5 for a tie.
        first, second: lengths of the answers, in characters.
    """
    y = np.asarray(preferences, dtype=np.float64)
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    share = min(float((difference > 0).mean()), float((difference < 0).mean()))
    if len(y) < LEAST_PROMPTS or (share < LEAST_SHARE and bool(difference.any())):
        return None
    spread = float(difference.std())
    x = np.tanh(difference / spread) if spread > 0 else np.zeros_like(difference)
    generator = np.random.default_rng(seed)
    draws = generator.integers(0, len(y), (DRAWS, len(y)))
    rates = [_at_equal_length(y[draw], x[draw]) for draw in draws]
    low, high = np.quantile(rates, [0.025, 0.975])
    return Interval(_at_equal_length(y, x), float(low), float(high))


def _at_equal_length(y: np.ndarray, x: np.ndarray) -> float:
    """sigmoid(intercept) of the penalised fit, by Newton's method; a weak prior on both keeps them finite."""
    a = b = 0.0
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(a + b * x, -30, 30)))
        weight = p * (1 - p)
        gradient = np.array([(y - p).sum() - a / 100, ((y - p) * x).sum() - b / RIDGE])
        hessian = np.array([[weight.sum() + 1 / 100, (weight * x).sum()],
                            [(weight * x).sum(), (weight * x * x).sum() + 1 / RIDGE]])  # fmt: skip
        step = np.linalg.solve(hessian, gradient)
        a, b = a + float(step[0]), b + float(step[1])
        if float(np.abs(step).max()) < 1e-10:
            break
    return 1 / (1 + math.exp(-a))
