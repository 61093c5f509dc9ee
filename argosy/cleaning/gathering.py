"""What is decided when all shards are scored: rules by their scores, copies by their keys, in the filters' order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.cleaning.dedup.deduplicator import Deduplicator
from argosy.cleaning.dedup.duplicates import About
from argosy.cleaning.dedup.external import Workspace
from argosy.cleaning.dedup.index import EarlierDocument
from argosy.cleaning.filter import Filter, Rule
from argosy.cleaning.scoring import KEPT, broken
from argosy.cleaning.shard import ScoredShard

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.cleaning.batch import Floats, Integers
    from argosy.cleaning.scoring import Codes, Flags

_BINS = 40  # of a score's histogram


@dataclass
class Decisions:
    """What happens to the documents of a corpus.

    Attributes:
        codes: by shard, the number of the reason why each document goes, or KEPT: (documents,), int32.
        reasons: (label of the filter, reason) by number.
        copies: by filter, number of each dropped copy in the corpus and of the document that it is a copy of, (n, 2).
        spans: by shard and filter, what is cut out of documents: number in the shard, first code point, end, (n, 3).
        earlier: by filter, documents of earlier corpora that others are copies of.
        tiers: by shard, the number of each document's tier (`tiers.assign`); empty where the config has none.
        tier_names: of the tiers, by number."""

    codes: "list[Codes]"
    reasons: list[tuple[str, str]] = field(default_factory=list)
    copies: dict[str, "Integers"] = field(default_factory=dict)
    spans: "dict[int, dict[str, Integers]]" = field(default_factory=dict)
    earlier: dict[str, list[EarlierDocument]] = field(default_factory=dict)
    tiers: "list[Codes]" = field(default_factory=list)
    tier_names: list[str] = field(default_factory=list)

    @property
    def kept(self) -> "Flags":
        """Tell of all documents of the corpus whether they are kept so far."""
        import numpy as np

        return np.concatenate([codes == KEPT for codes in self.codes])

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
    for number, shard in enumerate(shards):
        if not len(shard):
            continue  # a shard without documents has no scores either
        scores = shard.scores
        looked_at = ~shard.in_channels(one.config.skip_channels)
        for rule in one.rules():
            code = decisions.code(label, rule.reason)
            decisions.drop(number, looked_at & broken(rule, label, scores), code)


def drop_copies(
    label: str, one: Deduplicator[Any], shards: Sequence[ScoredShard], decisions: Decisions, work: Workspace,
    earlier: Sequence[Path] = ()
) -> None:
    """Drop copies among the documents that are kept so far, and cut repeated parts out of those that stay."""
    import numpy as np

    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(shard) for shard in shards])])
    found = one.select([shard.keys(label) for shard in shards], decisions.kept, about(shards), work, earlier)
    codes = [decisions.code(label, reason) for reason in one.reasons]
    for number in range(len(shards)):
        begin, end = np.searchsorted(found.documents, firsts[number : number + 2])
        rows = found.documents[begin:end] - firsts[number]
        decisions.codes[number][rows] = np.array(codes, np.int32)[found.reasons[begin:end]]
        begin, end = np.searchsorted(found.spans[:, 0], firsts[number : number + 2])
        if end > begin:
            decisions.spans.setdefault(number, {})[label] = found.spans[begin:end] - [firsts[number], 0, 0]
    decisions.copies[label] = np.column_stack([found.documents, found.of])
    decisions.earlier[label] = one.earlier_documents(found, earlier)


class _Gathered(Mapping[str, "Floats"]):
    """Scores of all documents, each gathered only when it is asked for."""

    def __init__(self, shards: Sequence[ScoredShard]) -> None:
        self._shards = [shard for shard in shards if len(shard)]

    def __getitem__(self, name: str) -> "Floats":
        import numpy as np

        return np.concatenate([shard.scores[name] for shard in self._shards])

    def __contains__(self, name: object) -> bool:
        return any(name in shard.scores.columns for shard in self._shards[:1])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards[0].scores if self._shards else ())

    def __len__(self) -> int:
        return len(self._shards[0].scores) if self._shards else 0


def about(shards: Sequence[ScoredShard]) -> About:
    """Gather what decides which of several copies stays."""
    import numpy as np

    found = [np.unique(shard.channels, return_inverse=True) for shard in shards]  # quicker than of all at once
    names = np.unique(np.concatenate([own for own, _ in found]))
    channels = np.concatenate([np.searchsorted(names, own)[numbers] for own, numbers in found])
    lengths = np.concatenate([shard.sizes("bytes") for shard in shards if len(shard)] or [np.zeros(0, np.int64)])
    sizes = [len(shard) for shard in shards]
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])

    def texts(documents: "Integers") -> list[str]:
        bounds = np.searchsorted(documents, firsts)
        return [text for number, (begin, end) in enumerate(pairwise(bounds)) if end > begin
                for text in shards[number].column("text", documents[begin:end] - firsts[number])]

    return About(sizes, channels.astype(np.int64), names.tolist(), lengths, _Gathered(shards), texts)


def write_indexes(filters: Mapping[str, Filter[Any]], shards: Sequence[ScoredShard], kept: "Flags", out: Path) -> None:
    """Write what a later corpus needs to be deduplicated against the documents that are kept at last."""
    known = about(shards)
    for label, one in filters.items():
        if isinstance(one, Deduplicator):
            ids = (shard.column("id") for shard in shards)
            one.write_index(out, [shard.keys(label) for shard in shards], kept, known, ids)


def histograms(label: str, one: Filter[Any], shards: Sequence[ScoredShard]) -> dict[str, Histogram]:
    """Count the values of the scores that rules of a filter look at, within twice the thresholds' range."""
    import numpy as np

    rules: dict[str, list[float]] = {}
    for rule in one.rules():
        rules.setdefault(rule.score, []).extend(each for each in (rule.least, rule.most) if np.isfinite(each))
    made = {}
    for score, thresholds in rules.items():
        if thresholds:
            edges = _edges(thresholds)
            counts = sum((_binned(shard.scores[f"{label}.{score}"], edges) for shard in shards if len(shard)),
                         np.zeros(_BINS, np.int64))
            made[f"{label}.{score}"] = Histogram(edges.tolist(), counts.tolist(), sorted(set(thresholds)))
    return made


def _edges(thresholds: Sequence[float]) -> "npt.NDArray[np.float64]":
    """Return the edges of the bins; of thresholds that are a hundred times each other, logarithmic ones."""
    import numpy as np

    if min(thresholds) > 0 and max(thresholds) > 100 * min(thresholds):
        return np.geomspace(min(thresholds) / 10, 2 * max(thresholds), _BINS + 1)
    low, high = 2 * min(0.0, *thresholds), 2 * max(0.0, *thresholds)
    return np.linspace(low, high if high > low else 1.0, _BINS + 1)


def _binned(values: "npt.NDArray[np.float64]", edges: "npt.NDArray[np.float64]") -> "npt.NDArray[np.int64]":
    import numpy as np

    inside = np.clip(values[np.isfinite(values)], edges[0], edges[-1])
    return np.histogram(inside, edges)[0].astype(np.int64)


def margins(rule: Rule, values: "npt.NDArray[np.float64]") -> "npt.NDArray[np.float64]":
    """Return how far each value of a rule's score is on the right side of its thresholds, as a share of the nearer one
    (of a threshold of 0, itself), (documents,); NaN passes as infinitely far."""
    import numpy as np

    least = (values - rule.least) / (abs(rule.least) or 1.0) if np.isfinite(rule.least) else np.inf
    most = (rule.most - values) / (abs(rule.most) or 1.0) if np.isfinite(rule.most) else np.inf
    nearest: npt.NDArray[np.float64] = np.nan_to_num(np.minimum(least, most), nan=np.inf)
    return nearest
