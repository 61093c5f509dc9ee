"""Documents to look at: a little above or below the threshold of a rule, by which one sees where it cuts, and the
largest clusters of copies."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from argosy.core.lazy import Flags, Floats, Integers, np
from argosy.corpus.cleaning.filter import Filter, Rule
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.report.funnel import SAMPLE_CHARACTERS
from argosy.corpus.cleaning.scored import Block, ScoredCorpus
from argosy.corpus.cleaning.scoring import KEPT

_COPIES = 5  # of a cluster that are named
_NEAR = 0.25  # of a threshold: what is further away is no near miss


class _Near(NamedTuple):
    """A document near a threshold; the nearest one comes first, of equally near ones the first of the corpus."""

    distance: float
    document: int
    value: float


@dataclass
class _Watched:
    """A rule, and the nearest documents so far that it has dropped, and that are kept."""

    label: str
    one: Filter[Any]
    rule: Rule
    code: int
    dropped: list[_Near] = field(default_factory=list)
    kept: list[_Near] = field(default_factory=list)


class NearMisses:
    """For each rule the `count` nearest documents that it dropped, and the `count` nearest that stay at last, within a
    quarter of its threshold."""

    def __init__(self, filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, decisions: Decisions,
                 count: int) -> None:
        numbers = {reason: code for code, reason in enumerate(decisions.reasons)}
        self._corpus, self._codes, self._count = corpus, decisions.codes, count
        self._watched = [_Watched(label, one, rule, numbers[label, rule.reason]) for label, one in filters.items()
                         for rule in one.rules() if (label, rule.reason) in numbers]

    def add(self, block: Block) -> None:
        """Look at the documents of a block."""
        codes, scores = self._codes[block.rows], block.scores
        for each in self._watched:
            looked_at = ~block.in_channels(each.one.config.skip_channels)
            values = scores[f"{each.label}.{each.rule.score}"]
            distances = margins(each.rule, values)
            # A value of 0 is as far from a threshold of 0 as can be.
            each.kept = self._nearest(each.kept, block, distances, values, looked_at & (codes == KEPT) & (values != 0))
            each.dropped = self._nearest(each.dropped, block, -distances, values, looked_at & (codes == each.code))

    def _nearest(self, before: list[_Near], block: Block, distances: Floats, values: Floats, own: Flags) -> list[_Near]:
        """Return the nearest of those before and those of a block, on the side that the rule says."""
        rows = np.flatnonzero(own & (distances >= 0) & (distances <= _NEAR))
        rows = rows[np.argsort(distances[rows], kind="stable")[: self._count]]
        found = (_Near(float(distances[row]), block.first + row, float(values[row])) for row in rows.tolist())
        return sorted([*before, *found])[: self._count]

    def to_json(self) -> list[dict[str, Any]]:
        """Make rows of filter, reason, score, value, limit (the threshold that is near), kept (whether the document
        stays), id, channel, and text (its beginning); by the filters' order, dropped ones first, the nearest first."""
        found = [(each, near, kept) for each in self._watched
                 for kept, some in ((False, each.dropped), (True, each.kept)) for near in some]
        texts = self._texts({near.document for _, near, _ in found})
        return [{"filter": each.label, "reason": each.rule.reason, "score": each.rule.score,
                 "value": float(f"{near.value:.6g}"), "limit": _limit(each.rule, near.value), "kept": kept,
                 **texts[near.document]} for each, near, kept in found]

    def _texts(self, documents: set[int]) -> dict[int, dict[str, str]]:
        numbers = sorted(documents)
        rows = self._corpus.rows(np.array(numbers, np.int64), ("id", "channel", "text"))
        return {number: {"id": name, "channel": channel, "text": text[:SAMPLE_CHARACTERS]}
                for number, (name, channel, text) in zip(numbers, rows, strict=True)}


def margins(rule: Rule, values: Floats) -> Floats:
    """Return how far each value of a rule's score is on the right side of its thresholds, as a share of the nearer one
    (of a threshold of 0, itself), (documents,); NaN passes as infinitely far."""
    least = (values - rule.least) / (abs(rule.least) or 1.0) if np.isfinite(rule.least) else np.inf
    most = (rule.most - values) / (abs(rule.most) or 1.0) if np.isfinite(rule.most) else np.inf
    return np.nan_to_num(np.minimum(least, most), nan=np.inf)


def _limit(rule: Rule, value: float) -> float:
    """Return the threshold that is nearer."""
    return min((rule.least, rule.most), key=lambda limit: abs(limit - value))


def clusters(filters: Mapping[str, Filter[Any]], corpus: ScoredCorpus, decisions: Decisions,
             count: int) -> dict[str, Any]:
    """Describe the clusters of copies by filter.

    Returns:
        By filter: `compared_by` (text, words, or "" where a form is not its to choose), `clusters`, `copies` that
        went, `of_earlier` corpora among them, `sizes` (documents of a cluster, the
        one that stays included, in powers of two: "2", "3-4", "5-8", ... -> clusters), and `largest`, `count` of them:
        the id and beginning of the document that stays, the filter that has dropped it later or "", the number of its
        copies, and ids of the first ones."""
    return {label: {"compared_by": str(getattr(filters[label].config, "normalise", "")),
                    **_describe(corpus, decisions, copies, count)} for label, copies in decisions.copies.items()}


def _describe(corpus: ScoredCorpus, decisions: Decisions, copies: Integers, count: int) -> dict[str, Any]:
    ours = copies[(copies[:, 1] >= 0) & (copies[:, 1] != copies[:, 0])]
    kept, times = np.unique(ours[:, 1], return_counts=True)
    powers = np.ceil(np.log2(times + 1)).astype(np.int64)
    sizes = {_named(power): number for power, number in sorted(Counter(powers.tolist()).items())}
    largest = []
    for at in np.lexsort((kept, -times))[:count].tolist():
        members = ours[ours[:, 1] == kept[at], 0][:_COPIES]
        [(name, text)] = corpus.rows(kept[at : at + 1], ("id", "text"))
        code = int(decisions.codes[kept[at]])
        largest.append({"id": name, "copies": int(times[at]), "text": text[:SAMPLE_CHARACTERS],
                        "later": "" if code == KEPT else decisions.reasons[code][0],
                        "first": [member for member, in corpus.rows(members, ("id",))]})
    return {"clusters": len(kept), "copies": len(copies), "of_earlier": int((copies[:, 1] < 0).sum()), "sizes": sizes,
            "largest": largest}


def _named(power: int) -> str:
    low, high = 2 ** (power - 1) + 1, 2**power
    return str(high) if low == high else f"{low}-{high}"
