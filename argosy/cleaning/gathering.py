"""What is decided when all shards are scored: rules by their scores, copies by their keys, in the order of the filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from argosy.cleaning.filter import Filter, Rule
from argosy.cleaning.scoring import KEPT, broken
from argosy.cleaning.shard import ScoredShard

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.cleaning.scoring import Codes, Flags

_BINS = 40  # of a score's histogram


@dataclass
class Decisions:
    """What happens to the documents of a corpus.

    Attributes:
        codes: by shard, the number of the reason why each document goes, or KEPT: (documents,), int32.
        reasons: (label of the filter, reason) by number.
        histograms: by "<filter>.<score>" with a rule, how many documents have which values."""

    codes: "list[Codes]"
    reasons: list[tuple[str, str]] = field(default_factory=list)
    histograms: dict[str, "Histogram"] = field(default_factory=dict)

    def drop(self, shard: int, flags: "Flags", code: int) -> None:
        """Drop the documents of a shard that are kept so far and flagged."""
        self.codes[shard][flags & (self.codes[shard] == KEPT)] = code

    def code(self, label: str, reason: str) -> int:
        """Return the number of a reason, which is new or not."""
        if (label, reason) not in self.reasons:
            self.reasons.append((label, reason))
        return self.reasons.index((label, reason))


@dataclass(frozen=True)
class Histogram:
    """Values of a score over the corpus, and where its rules cut.

    Attributes:
        edges: of the bins, (bins + 1,); the outer bins hold what lies beyond.
        counts: (bins,).
        thresholds: of the rules over it."""

    edges: list[float]
    counts: list[int]
    thresholds: list[float]


def apply_rules(label: str, one: Filter[Any], shards: Sequence[ScoredShard], decisions: Decisions) -> None:
    """Drop what breaks a rule of a filter; the first rule is the reason."""
    import numpy as np

    for number, shard in enumerate(shards):
        scores = shard.scores
        looked_at = ~np.isin(shard.channels, one.config.skip_channels)
        for rule in one.rules():
            code = decisions.code(label, rule.reason)
            decisions.drop(number, looked_at & broken(rule, label, scores), code)


def histograms(label: str, one: Filter[Any], shards: Sequence[ScoredShard]) -> dict[str, Histogram]:
    """Count the values of the scores that rules of a filter look at, within twice the thresholds' range."""
    import numpy as np

    rules: dict[str, list[float]] = {}
    for rule in one.rules():
        rules.setdefault(rule.score, []).extend(each for each in (rule.least, rule.most) if np.isfinite(each))
    made = {}
    for score, thresholds in rules.items():
        if thresholds:
            edges = np.linspace(min(0.0, *thresholds), 2 * max(thresholds) or 1.0, _BINS + 1)
            counts = sum((_binned(shard.scores[f"{label}.{score}"], edges) for shard in shards),
                         np.zeros(_BINS, np.int64))
            made[f"{label}.{score}"] = Histogram(edges.tolist(), counts.tolist(), sorted(set(thresholds)))
    return made


def _binned(values: "npt.NDArray[np.float64]", edges: "npt.NDArray[np.float64]") -> "npt.NDArray[np.int64]":
    import numpy as np

    inside = np.clip(values[np.isfinite(values)], edges[0], edges[-1])
    return np.histogram(inside, edges)[0].astype(np.int64)


def margins(rule: Rule, label: str, scores: Mapping[str, "npt.NDArray[np.float64]"]) -> "npt.NDArray[np.float64]":
    """Return how far each document is on the right side of a threshold, as a share of it, (documents,); NaN passes as
    infinitely far."""
    import numpy as np

    values = scores[f"{label}.{rule.score}"]
    least = (values - rule.least) / max(abs(rule.least), 1e-9) if np.isfinite(rule.least) else np.inf
    most = (rule.most - values) / max(abs(rule.most), 1e-9) if np.isfinite(rule.most) else np.inf
    return np.nan_to_num(np.minimum(least, most), nan=np.inf)
