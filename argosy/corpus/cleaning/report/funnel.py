"""Counts of what became of a corpus, by channel: what went and why, changes, languages, values of scores; samples."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from argosy.core.lazy import Flags, Floats, Integers, Integers32, np, npt
from argosy.corpus.cleaning.batch import chunks
from argosy.corpus.cleaning.dedup.spans import without
from argosy.corpus.cleaning.filter import Filter
from argosy.corpus.cleaning.filters.language import LANGUAGES
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.scored import Block, ScoredCorpus
from argosy.corpus.cleaning.scores import SIZE, SIZE_IN
from argosy.corpus.cleaning.scoring import KEPT
from argosy.corpus.cleaning.tiers import tier_channel

_COUNTS = ("in", "out", "bytes_in", "bytes_out")  # documents and their UTF-8 bytes
SAMPLE_CHARACTERS = 300  # of a text in the report
_TEXTS = 2**23  # bytes of them that are read at a time
_CODES = 2**20  # that are looked at at a time


@dataclass
class ChannelCounts:
    """Counts of one channel; documents in = documents out + all of `dropped`."""

    counts: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    changed: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/files.md."""
        dropped = {name: dict(reasons) for name, reasons in self.dropped.items()}
        return {key: self.counts[key] for key in _COUNTS} | {"dropped": dropped, "changed": dict(self.changed)}


class Funnel:
    """Counts by channel as it came; and of channels that tiers make of it, {"of", "out", "bytes_out"} by name."""

    def __init__(self, corpus: ScoredCorpus, decisions: Decisions) -> None:
        self.channels: dict[str, ChannelCounts] = {}
        self.tiers: dict[str, dict[str, Any]] = {}
        self._corpus, self._decisions = corpus, decisions

    def add(self, block: Block) -> None:
        """Count what was decided about the documents of a block."""
        codes = self._decisions.codes[block.rows]
        cuts = _Cuts.of(self._corpus, block, codes == KEPT, self._decisions.cuts(block.rows))
        for name, own in block.by_channel():
            _count(self.channels.setdefault(name, ChannelCounts()), block, codes, own, self._decisions.reasons, cuts)
            if self._decisions.tiers is not None:
                tiers = self._decisions.tiers[block.rows]
                for number, tier in enumerate(self._decisions.tier_names):
                    inside = own & (codes == KEPT) & (tiers == number)
                    _count_tier(self.tiers, name, tier, (block.sizes(SIZE) - cuts.sizes)[inside])

    def totals(self) -> Counter[str]:
        """Add the channels' documents and bytes up."""
        return sum((one.counts for one in self.channels.values()), Counter[str]())

    def dropped(self) -> dict[str, int]:
        """Count dropped documents by filter."""
        total = Counter[str]()
        for one in self.channels.values():
            total.update({name: reasons.total() for name, reasons in one.dropped.items()})
        return dict(sorted(total.items()))

    def lost(self) -> dict[str, dict[str, float]]:
        """Return the share of each channel's documents that each filter dropped."""
        return {name: {label: round(reasons.total() / one.counts["in"], 4)
                       for label, reasons in sorted(one.dropped.items())}
                for name, one in sorted(self.channels.items())}

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/files.md."""
        tiers = {"tiers": dict(sorted(self.tiers.items()))} if self.tiers else {}
        return {"channels": {name: one.to_json() for name, one in sorted(self.channels.items())}} | tiers


def _count_tier(made: dict[str, dict[str, Any]], channel: str, tier: str, sizes: Integers) -> None:
    """Add documents of these sizes in bytes to those that a tier takes out of a channel."""
    if len(sizes):
        one = made.setdefault(tier_channel(channel, tier), {"of": channel, "out": 0, "bytes_out": 0})
        one["out"] += len(sizes)
        one["bytes_out"] += int(sizes.sum())


@dataclass
class _Cuts:
    """Cuts of deduplication in the documents of a shard that stay.

    Attributes:
        changed: by filter, whether it cuts a document, (documents,).
        sizes: UTF-8 bytes, (documents,), int64."""

    changed: dict[str, Flags]
    sizes: Integers

    @classmethod
    def of(cls, corpus: ScoredCorpus, block: Block, kept: Flags, spans: Mapping[str, Integers]) -> Self:
        """Read the texts that are cut, a few at a time."""
        changed = {label: np.zeros(len(block), np.bool_) for label in spans}
        for label, places in spans.items():
            changed[label][places[:, 0]] = kept[places[:, 0]]
        sizes = np.zeros(len(block), np.int64)
        every = np.concatenate([np.zeros((0, 3), np.int64), *spans.values()])
        every = every[np.lexsort((every[:, 1], every[:, 0]))]
        rows = np.unique(every[kept[every[:, 0]], 0])
        for some in chunks(rows, block.sizes(SIZE)[rows], _TEXTS):
            bounds = np.searchsorted(every[:, 0], [some, some + 1])
            for row, text, begin, end in zip(some, corpus.texts(some + block.first), *bounds, strict=True):
                left = without(text, every[begin:end, 1:].tolist())
                sizes[row] = len(text.encode(errors="surrogatepass")) - len(left.encode(errors="surrogatepass"))
        return cls(changed, sizes)


def _count(one: ChannelCounts, block: Block, codes: Integers32, own: Flags, reasons: Sequence[tuple[str, str]],
           cuts: _Cuts) -> None:
    kept = own & (codes == KEPT)
    one.counts.update({"in": int(own.sum()), "out": int(kept.sum()),
                       "bytes_in": int(block.sizes(SIZE_IN)[own].sum()),
                       "bytes_out": int((block.sizes(SIZE) - cuts.sizes)[kept].sum())})
    for code, times in zip(*np.unique(codes[own & ~kept], return_counts=True), strict=True):
        label, reason = reasons[code]
        one.dropped[label][reason] += int(times)
    for label, flags in {**block.changed, **cuts.changed}.items():
        if times := int((flags & own).sum()):
            one.changed[label] += times


class Repaired:
    """Counts of what filters found by kind, of those that count (personal data that was replaced)."""

    def __init__(self, filters: Mapping[str, Filter[Any]]) -> None:
        self._counts = {label: dict.fromkeys(one.counted, 0) for label, one in filters.items() if one.counted}

    def add(self, block: Block) -> None:
        """Count what was found in the documents of a block."""
        for label, counts in self._counts.items():
            for kind in counts:
                counts[kind] += int(np.nansum(block.scores[f"{label}.{kind}"]))

    def to_json(self) -> dict[str, dict[str, int]]:
        """Make {filter: {kind: count}}."""
        return self._counts


def samples(corpus: ScoredCorpus, decisions: Decisions, count: int) -> list[dict[str, str]]:
    """Return the first `count` documents that went for each reason, as they were then."""
    firsts = _first_of_each(decisions.codes, len(decisions.reasons), count)
    found: list[dict[str, str]] = []
    rows = corpus.rows(np.array(firsts, np.int64), ("channel", "text"))
    for document, (channel, text) in zip(firsts, rows, strict=True):
        label, reason = decisions.reasons[decisions.codes[document]]
        found.append({"filter": label, "reason": reason, "channel": channel, "text": text[:SAMPLE_CHARACTERS]})
    return found


def _first_of_each(codes: Integers32, reasons: int, count: int) -> list[int]:
    """Return the numbers of the first `count` documents of each code, ascending."""
    left = dict.fromkeys(range(reasons), count)
    found: list[int] = []
    for at in range(0, len(codes), _CODES):
        some = codes[at : at + _CODES]
        for code in [code for code, more in left.items() if more]:
            own = np.flatnonzero(some == code)[: left[code]] + at
            left[code] -= len(own)
            found += own.tolist()
    return sorted(found)


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


def _edges(thresholds: Sequence[float]) -> Floats:
    """Return the edges of the bins; of thresholds that are a hundred times each other, logarithmic ones."""
    if min(thresholds) > 0 and max(thresholds) > 100 * min(thresholds):
        return np.geomspace(min(thresholds) / 10, 2 * max(thresholds), _BINS + 1)
    low, high = 2 * min(0.0, *thresholds), 2 * max(0.0, *thresholds)
    return np.linspace(low, high if high > low else 1.0, _BINS + 1)


def _binned(values: Floats, edges: Floats) -> Integers:
    return np.histogram(np.clip(values[np.isfinite(values)], edges[0], edges[-1]), edges)[0].astype(np.int64)


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
        told = np.full(len(block), "?", "<U5")
        for name in LANGUAGES:
            told[np.isfinite(block.scores[f"{self._label}.{name}"])] = name
        return told

    def to_json(self) -> dict[str, dict[str, dict[str, int]]]:
        """Make {channel: {language: {in, out, bytes_in}}}."""
        return {channel: dict(sorted(own.items(), key=lambda item: (-item[1]["in"], item[0])))
                for channel, own in sorted(self._counts.items())}
