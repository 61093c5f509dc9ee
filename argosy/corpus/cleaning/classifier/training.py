"""Training of a classifier: documents are parted by a hash of their texts, one part is learnt from, one calibrates, and
one that neither has seen measures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import Flags, Floats, Integers, np
from argosy.corpus.cleaning.classifier.model import Classifier, Features
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.split import hash_fraction
from argosy.corpus.text.scripts import normalise

LEAST = 10  # documents of each side in each part
_PARTS = ("learning", "calibration", "measuring")
_SHOWN = 3  # documents that are judged worst
_LOOK = 300  # characters of them
BINS = 10  # of the reliability diagram


@dataclass(frozen=True)
class Labelled:
    """Documents with their labels.

    Attributes:
        labels: 0 or 1, (documents,), float64."""

    documents: Sequence[Document]
    labels: Floats

    def part(self, rows: Integers) -> "Labelled":
        """Take some of them."""
        return replace(self, documents=[self.documents[at] for at in rows.tolist()], labels=self.labels[rows])


def of_sets(positives: Sequence[Document], negatives: Sequence[Document]) -> Labelled:
    """Label two sets 1 and 0; a negative that is a copy of a positive, up to case and punctuation, is left out."""
    known = {normalise(document.text) for document in positives}
    others = [document for document in negatives if normalise(document.text) not in known]
    return Labelled([*positives, *others], np.repeat([1.0, 0.0], [len(positives), len(others)]))


def train(data: Labelled, features: Features, c: float, heldout: float, threshold: float
          ) -> tuple[Classifier, dict[str, Any]]:
    """Train and calibrate a classifier, and measure it on documents that it has not seen.

    Args:
        c: weight of the losses beside that of the weights' squares.
        heldout: share of the documents that measures; as many calibrate.
        threshold: probability from which a document counts as good.

    Returns the classifier, and its measures with the documents that it judges worst.
    Raises InputError: there are too few documents of one side."""
    from argosy.core.statistics.intervals import platt

    learning, calibration, measuring = _parted(data, heldout)
    rough = _fitted(learning, features, c)
    slope, offset = platt(rough.values_of(calibration.documents), calibration.labels)
    made = replace(rough, slope=slope, offset=offset)
    found = made.of(measuring.documents)
    report = classification(found, measuring.labels, threshold)
    sizes = {name: len(part.documents) for name, part in zip(_PARTS, (learning, calibration, measuring), strict=True)}
    return made, {"documents": sizes, "threshold": threshold, **report, "worst": _worst(measuring, found)}


def _parted(data: Labelled, heldout: float) -> list[Labelled]:
    """Part by a hash of the normal text, so that copies are on one side."""
    places = np.array([hash_fraction(f"classifier/{normalise(document.text)}") for document in data.documents])
    parts = [data.part(np.flatnonzero(inside)) for inside in
             (places >= 2 * heldout, (places >= heldout) & (places < 2 * heldout), places < heldout)]
    for name, part in zip(_PARTS, parts, strict=True):
        ahead = int((part.labels > 0).sum())
        for side, count in (("good", ahead), ("other", len(part.labels) - ahead)):
            if count < LEAST:
                raise InputError(f"classifier: there are {count} {side} documents for {name}, allowed: at least "
                                 f"{LEAST} of each side in each part; give more documents (some "
                                 f"{round(LEAST / heldout * 1.5)} of each side), cut them smaller with "
                                 "classifier.source.text_chars, or raise classifier.heldout_share")
    return parts


def _fitted(data: Labelled, features: Features, c: float) -> Classifier:
    from argosy.corpus.cleaning.kernels.filters.classifier import fit

    targets = np.where(data.labels > 0, 1.0, -1.0)
    weights = fit(*features.rows(data.documents), targets, 2**features.bits, c)
    return Classifier(features, weights[:-1].astype(np.float32), float(weights[-1]))


def _worst(data: Labelled, found: Floats) -> list[dict[str, Any]]:
    """Show the documents whose label is farthest from what was found: each side's."""
    order = np.argsort(found - data.labels, kind="stable")
    most = min(_SHOWN, len(order) // 2)
    return [{"id": data.documents[at].id, "label": float(data.labels[at]), "found": float(found[at]),
             "text": data.documents[at].text[:_LOOK]} for at in [*order[:most].tolist(), *order[::-1][:most].tolist()]]


def classification(found: Floats, labels: Floats, threshold: float) -> dict[str, Any]:
    """Measure probabilities against labels of 0 and 1, both (documents,).

    Returns precision, recall and F1 at the threshold, the area under the ROC curve, the Brier score, the expected
    calibration error (Naeini et al. 2015), and for each bin of probabilities how many there are, their mean, and the
    share of positives among them."""
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


def at_threshold(chosen: Flags, good: Flags) -> dict[str, float]:
    """Return precision, recall and F1 of a choice, (documents,); 0 where nothing is chosen or good."""
    both, picked, there = int((chosen & good).sum()), int(chosen.sum()), int(good.sum())
    return {"precision": both / max(picked, 1), "recall": both / max(there, 1), "f1": 2 * both / max(picked + there, 1)}
