"""Histograms of scores with the thresholds of the rules that look at them, and documents by channel and language."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argosy.core.lazy import np, npt
from argosy.corpus.cleaning.filter import Filter
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.scored import Block
from argosy.corpus.cleaning.scores import SIZE_IN
from argosy.corpus.cleaning.scoring import KEPT

_BINS = 40


@dataclass
class Histogram:
    """Values of a score over the corpus, and where its rules cut.

    Attributes:
        edges: of the bins, (bins + 1,); the outer bins hold what lies beyond.
        counts: (bins,).
        thresholds: of the rules over it."""

    edges: list[float]
    counts: list[int]
    thresholds: list[float]


class Histograms:
    """Counts of the values of all scores that rules look at, within twice the thresholds' range."""

    def __init__(self, filters: Mapping[str, Filter[Any]]) -> None:
        rules: dict[str, list[float]] = {}
        for label, one in filters.items():
            for rule in one.rules():
                limits = [each for each in (rule.least, rule.most) if np.isfinite(each)]
                rules.setdefault(f"{label}.{rule.score}", []).extend(limits)
        self._made = {score: Histogram(_edges(limits).tolist(), [0] * _BINS, sorted(set(limits)))
                      for score, limits in rules.items() if limits}

    def add(self, block: Block) -> None:
        """Count the documents of a block."""
        scores = block.scores
        for score, made in self._made.items():
            made.counts = (made.counts + _binned(scores[score], np.array(made.edges))).tolist()

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/files.md."""
        return {score: asdict(made) for score, made in self._made.items()}


def _edges(thresholds: Sequence[float]) -> "npt.NDArray[np.float64]":
    """Return the edges of the bins; of thresholds that are a hundred times each other, logarithmic ones."""
    if min(thresholds) > 0 and max(thresholds) > 100 * min(thresholds):
        return np.geomspace(min(thresholds) / 10, 2 * max(thresholds), _BINS + 1)
    low, high = 2 * min(0.0, *thresholds), 2 * max(0.0, *thresholds)
    return np.linspace(low, high if high > low else 1.0, _BINS + 1)


def _binned(values: "npt.NDArray[np.float64]", edges: "npt.NDArray[np.float64]") -> "npt.NDArray[np.int64]":
    inside = np.clip(values[np.isfinite(values)], edges[0], edges[-1])
    return np.histogram(inside, edges)[0].astype(np.int64)


class Languages:
    """Counts by channel and main language ("?": none was told) that the first filter `language` told; none without."""

    def __init__(self, filters: Mapping[str, Filter[Any]], decisions: Decisions) -> None:
        self._label = next((label for label, one in filters.items() if one.name == "language"), "")
        self._decisions = decisions
        self._counts: dict[str, dict[str, dict[str, int]]] = {}

    def add(self, block: Block) -> None:
        """Count the documents of a block."""
        if not self._label:
            return
        told, kept = self._told(block), self._decisions.codes[block.rows] == KEPT
        for channel, inside in block.by_channel():
            for name in np.unique(told[inside]).tolist():
                own = inside & (told == name)
                one = self._counts.setdefault(channel, {}).setdefault(name, {"in": 0, "out": 0, "bytes_in": 0})
                one["in"] += int(own.sum())
                one["out"] += int((own & kept).sum())
                one["bytes_in"] += int(block.sizes(SIZE_IN)[own].sum())

    def _told(self, block: Block) -> "npt.NDArray[np.str_]":
        from argosy.corpus.cleaning.filters.language import LANGUAGES

        told = np.full(len(block), "?", "<U5")
        for name in LANGUAGES:
            told[np.isfinite(block.scores[f"{self._label}.{name}"])] = name
        return told

    def to_json(self) -> dict[str, dict[str, dict[str, int]]]:
        """Make {channel: {language: {in, out, bytes_in}}}."""
        return {channel: dict(sorted(own.items(), key=lambda item: (-item[1]["in"], item[0])))
                for channel, own in sorted(self._counts.items())}
