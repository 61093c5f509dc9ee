"""Measures of a classifier on documents that it has not seen: of probabilities, and of scores."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.corpus.cleaning.batch import Floats

BINS = 10  # of the reliability diagram


def classification(found: "Floats", labels: "Floats", threshold: float) -> dict[str, Any]:
    """Measure probabilities against labels of 0 and 1, both (documents,).

    Returns precision, recall and F1 at the threshold, the area under the ROC curve, the Brier score, the expected
    calibration error (Naeini et al. 2015), and for each bin of probabilities how many there are, their mean, and the
    share of positives among them."""
    import numpy as np

    from argosy.core.statistics.intervals import auc

    good = labels > 0
    bins = np.minimum((found * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    means, shares = (np.bincount(bins, weights=each, minlength=BINS) / np.maximum(counts, 1)
                     for each in (found, good.astype(np.float64)))
    reliability = [{"least": at / BINS, "documents": int(counts[at]), "probability": float(means[at]),
                    "positives": float(shares[at])} for at in range(BINS) if counts[at]]
    area = auc(found[good].tolist(), found[~good].tolist())
    return {**at_threshold(found >= threshold, good), "auc": area.value, "auc_stderr": area.stderr,
            "brier": float(((found - good) ** 2).mean()),
            "calibration_error": float((counts * np.abs(means - shares)).sum() / len(found)),
            "reliability": reliability}


def regression(found: "Floats", labels: "Floats", threshold: float) -> dict[str, Any]:
    """Measure scores against labels of 0 to 5, both (documents,): Pearson's and Spearman's correlation, the mean
    absolute error, and precision, recall and F1 of "at least the threshold" (FineWeb-Edu reports F1 at 3)."""
    import numpy as np
    from scipy.stats import rankdata

    return {**at_threshold(found >= threshold, labels >= threshold), "pearson": _correlation(found, labels),
            "spearman": _correlation(rankdata(found), rankdata(labels)),
            "mean_absolute_error": float(np.abs(found - labels).mean())}


def at_threshold(chosen: "npt.NDArray[np.bool_]", good: "npt.NDArray[np.bool_]") -> dict[str, float]:
    """Return precision, recall and F1 of a choice, (documents,); 0 where nothing is chosen or good."""
    both, picked, there = int((chosen & good).sum()), int(chosen.sum()), int(good.sum())
    return {"precision": both / max(picked, 1), "recall": both / max(there, 1), "f1": 2 * both / max(picked + there, 1)}


def _correlation(one: "Floats", other: "Floats") -> float:
    """Return Pearson's correlation; 0 where one of the two is constant."""
    a, b = one - one.mean(), other - other.mean()
    scale = float(((a**2).sum() * (b**2).sum()) ** 0.5)
    return float((a * b).sum()) / scale if scale else 0.0
