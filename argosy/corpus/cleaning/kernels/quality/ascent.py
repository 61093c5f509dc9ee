"""Linear models on sparse rows by stochastic dual coordinate ascent (Shalev-Shwartz and Zhang 2013, section 6): the
optimum of logistic and of ridge regression, in a fixed order and without a library whose sums depend on its threads."""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_PASSES = 300  # at most; a few dozen are the rule
_STEP, _PLUS, _HIGH = np.uint64(6364136223846793005), np.uint64(1442695040888963407), np.uint64(33)  # Knuth's MMIX


def fit(
    begins: "npt.NDArray[np.int64]", columns: "npt.NDArray[np.int32]", values: "npt.NDArray[np.float32]",
    targets: "Floats", size: int, c: float, logistic: bool, tolerance: float = 1e-5
) -> "Floats":
    """Return the weights that minimise |w|^2 / 2 + c * the sum of losses, (size + 1,): the last one is the intercept,
    which is of a feature that is 1 everywhere and so counts in |w|^2.

    Args:
        begins, columns, values: sparse rows, as `hashed.rows` makes them.
        targets: -1 or 1 of logistic regression, any number of ridge regression, (rows,).
        c: weight of the losses: log(1 + exp(-y z)), or (y - z)^2 / 2.
        tolerance: it ends when no dual variable changes by more than this times c in a pass."""
    weights: Floats = _fit(begins, columns, values, targets, size, c, logistic, tolerance)
    return weights


@njit(cache=True)
def _fit(begins, columns, values, targets, size, c, logistic, tolerance):  # type: ignore[no-untyped-def]
    count = len(targets)
    weights, dual, order = np.zeros(size + 1), np.zeros(count), np.arange(count)
    norms = np.ones(count)
    for row in range(count):
        for at in range(begins[row], begins[row + 1]):
            norms[row] += values[at] * values[at]
    state = np.uint64(1)
    for _ in range(_PASSES):
        for last in range(count - 1, 0, -1):  # another order in each pass, the same ones in each run
            state = state * _STEP + _PLUS
            other = np.int64((state >> _HIGH) % np.uint64(last + 1))
            order[last], order[other] = order[other], order[last]
        largest = 0.0
        for number in range(count):
            row = order[number]
            score = weights[size]
            for at in range(begins[row], begins[row + 1]):
                score += weights[columns[at]] * values[at]
            y = targets[row]
            if logistic:
                step = (y / (1 + np.exp(y * score)) - dual[row]) / max(1.0, 0.25 + c * norms[row])
            else:
                step = (y - score - dual[row]) / (1 + c * norms[row])
            dual[row] += step
            largest = max(largest, abs(step))
            for at in range(begins[row], begins[row + 1]):
                weights[columns[at]] += c * step * values[at]
            weights[size] += c * step
        if largest <= tolerance:
            break
    return weights
